"""Steps of a sweep beside those of trees."""
