"""Explanations of predictions: importance, effects, interactions, SHAP values and contrasts."""
