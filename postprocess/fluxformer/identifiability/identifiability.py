"""What attention weights and hidden tokens can tell, in the report: how many weights do as well, the part of them that acts, how long a
token is recognised, where hidden tokens come from."""

from __future__ import annotations

from fluxformer.identifiability.attribution import attribution_table, draw_attribution
from fluxformer.identifiability.effective import draw_effective, effective_table
from fluxformer.identifiability.freedom import draw_freedom, freedom_table
from fluxformer.identifiability.identity import draw_identity, identity_table
from fluxformer.report.sections import Section

SECTIONS = (Section(12, "freedom", "How many attention weights do as well", "identifiability", draw_freedom, freedom_table),
            Section(13, "effective", "Effective attention", "identifiability", draw_effective, effective_table),
            Section(14, "identity", "How long a token is recognised", "identifiability", draw_identity, identity_table),
            Section(15, "attribution", "Where hidden tokens come from", "identifiability", draw_attribution, attribution_table))
