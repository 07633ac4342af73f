"""What the figures of clusters have in common."""

GROUP = "softmax"
CURVES = ("#1b1f24", "#2563eb", "#0f9d78", "#e4572e", "#8e44ad")
