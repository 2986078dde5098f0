from . import catalog_names as catalog_names
from . import lacking as lacking
