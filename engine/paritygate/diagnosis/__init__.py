"""Why a sample failed, in words and figures: what a run folder and the two models' facts tell."""
