from .fitting import train as train
from .optimizers import SGD as SGD
from .optimizers import Adagrad as Adagrad
from .optimizers import Adam as Adam
from .optimizers import Momentum as Momentum
from .optimizers import Optimizer as Optimizer
from .training import Training as Training
