from . import markup as markup
