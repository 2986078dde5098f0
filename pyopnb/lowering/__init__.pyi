from .form_list import forms as forms
from .lowering import lower as lower
