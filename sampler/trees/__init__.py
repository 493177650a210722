"""Methods of one tree, sharp (`cart`) or soft (`soft`): chains, priors, laws and codecs."""
