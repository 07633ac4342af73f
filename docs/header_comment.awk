# Doxygen's input filter. Lines keep their numbers.
#
# The `//` comment after `#pragma once` becomes the description of the file; its indented lines, formulas and tables, become code.
# <name> in a comment is a word, not HTML. Explicit instantiations are left out: the template has the comment.
state == 0 && /^#pragma once/ { state = 1 }
state == 1 && /^$/ { print "/// @file"; state = 2; next }
state == 2 && /^\/\// {
  sub(/^\/\//, "///")
  if (/^\/\/\/  +[^ ]/) sub(/^\/\/\//, "///     ")
  else gsub(/<[a-z_]+>/, "\\\\&")
  print
  next
}
state == 2 { state = 3 }
/^extern template/ { instantiation = 1 }
instantiation { if (/;/) instantiation = 0; print ""; next }
/\/\/\// { code = index($0, "///") - 1; comment = substr($0, code + 1); gsub(/<[a-z_]+>/, "\\\\&", comment); $0 = substr($0, 1, code) comment }
{ print }
