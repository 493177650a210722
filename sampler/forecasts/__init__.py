"""Forecasts of series by paths: members with lags, each an ordinary posterior, judged in rehearsals."""
