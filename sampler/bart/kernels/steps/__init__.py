"""Steps of a sweep: what is drawn beside the trees, and a whole forest as one of them."""
