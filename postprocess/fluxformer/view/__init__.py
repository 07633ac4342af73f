"""The explorer: one page for the browser, made of any results, that shows every array of theirs behind sliders and menus."""
