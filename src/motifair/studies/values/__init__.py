"""Who contributes is who is paid: the value of members by retraining, and valuations against it."""
