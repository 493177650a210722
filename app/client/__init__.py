"""Python client of a running service: upload, fit, wait, predict.

>>> from bartserve import Client
>>> with Client() as bart:                                     # BARTSERVE_URL, BARTSERVE_KEY
...     cars = bart.upload("examples/auto_mpg.csv")
...     model = bart.wait(bart.fit(cars, "mpg", name="cars", features=["weight", "year"]))
...     answer = bart.predict("cars", [{"weight": 2171, "year": 75}], interval="predictive")
>>> answer.lower < answer.mean < answer.upper                  # numpy arrays, one value per row
array([ True])

It uses only the HTTP API. Every refusal is an exception with the service's problem document; requests that
the service asks to retry are retried.
"""

from app.client.client import DEFAULT_URL, Client
from app.client.errors import (
    ClientError,
    FitError,
    NoAnswerError,
    NoHoldoutError,
    Place,
    ProblemError,
    WaitedTooLongError,
)
from app.client.forecasts import SeriesForecast
from app.client.views import (
    Chain,
    Dataset,
    Event,
    GroupModel,
    Interval,
    Model,
    ModelSet,
    Prediction,
    PredictionJob,
    Study,
)

__all__ = [
    "DEFAULT_URL",
    "Chain",
    "Client",
    "ClientError",
    "Dataset",
    "Event",
    "FitError",
    "GroupModel",
    "Interval",
    "Model",
    "ModelSet",
    "NoAnswerError",
    "NoHoldoutError",
    "Place",
    "Prediction",
    "PredictionJob",
    "ProblemError",
    "SeriesForecast",
    "Study",
    "WaitedTooLongError",
]
