"""Explanations of fitted models: diagnostics, importance, effects, contrasts, SHAP values, cards."""
