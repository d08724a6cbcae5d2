"""Puts the JSON schema of recipes on the site, made as it is built (`hooks` in mkdocs.yml)."""

from __future__ import annotations

import json

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from cluster.recipe.fields import recipe_schema


def on_files(files: Files, config: MkDocsConfig) -> Files:
    schema = json.dumps(recipe_schema(), indent=1) + "\n"
    files.append(File.generated(config, "reference/recipe.schema.json", content=schema))
    return files
