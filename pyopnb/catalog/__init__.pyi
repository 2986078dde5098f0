# Arithmetic that corrections of the reference share with operators: precision, sampling.
from .cores import precision as precision
from .cores import sampling as sampling

# The pads of a convolution.
from .cores.convolution import pads_of as pads_of

# Operators by their names in model files, why others cannot run, and which pack comes first.
from .index import Entry as Entry
from .index import entries as entries
from .index import entries_named as entries_named
from .index import find_entry as find_entry
from .index import find_refusal as find_refusal
from .index import prefer as prefer

# The table of operators that `pyopnb.catalog` displays.
from .listing import search as search

# Operators of the first ONNX versions, which the reference gets wrong.
from .onnx_old.batch_normalization import BatchNormalization_1 as BatchNormalization_1
from .onnx_old.gru import GRU_1 as GRU_1
from .onnx_old.lstm import LSTM_1 as LSTM_1
from .onnx_old.rnn import RNN_1 as RNN_1
from .onnx_old.split import Split_1 as Split_1
