# The headline of a diff in HTML.
from .array_diff import headline_html as headline_html

# The source of an op with its ONNX operators.
from .lowered_source import LoweredLine as LoweredLine
from .lowered_source import LoweredSource as LoweredSource

# Netron in the output of a cell, and the node that was clicked there.
from .netron_page.view import TARGET as TARGET
from .netron_page.view import clicked as clicked
from .netron_page.view import netron as netron

# HTML that survives in a saved notebook.
from .page import markup as markup

# Anything as a view or as HTML.
from .showing import show as show
from .showing import to_html as to_html

# The same colors in successive pictures.
from .steady import SteadyColors as SteadyColors

# Charts of lines.
from .svg.chart import Chart as Chart
from .svg.line_chart import line_chart as line_chart

# What a view is, and where views of new classes are registered.
from .views import View as View
from .views import charts_view as charts_view
from .views import view as view
