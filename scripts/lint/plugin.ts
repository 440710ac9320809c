import { dirname, join, relative, sep } from "node:path";
import { browserLayers, loaders, ownPackages, trees } from "./layers.ts";

type Layer = { readonly path: string; readonly imports: ReadonlySet<string>; readonly packages: readonly string[] };

/** Longer paths first. */
const layers: readonly Layer[] = Object.entries(trees)
  .flatMap(([tree, rows]) =>
    Object.entries(rows).map(([path, [imports, packages = ""]]) => ({
      path: join(tree, path),
      imports: new Set(words(imports).map((word) => join(tree, word))),
      packages: [...words(packages), ...(ownPackages[tree] ?? [])],
    })),
  )
  .toSorted((one, other) => other.path.length - one.path.length);

/** What is wrong with an import, if anything. `file` is the path of a source file in the repository. */
export function findForbiddenImport(file: string, specifier: string): string | undefined {
  const layer = layerOf(file);
  if (layer === undefined) {
    return isLayered(file) ? `${file} is in no layer of scripts/lint/layers.ts: add its folder` : undefined;
  }
  if (specifier.startsWith("node:")) {
    return browserLayers.has(layer.path) ? `${layer.path} runs in browsers: it can't import ${specifier}` : undefined;
  }
  const target = specifier.startsWith(".") ? join(dirname(file), specifier).replaceAll(sep, "/") : specifier;
  const targetLayer = layerOf(target)?.path ?? "";
  const isPermitted =
    targetLayer === layer.path ||
    layer.imports.has(targetLayer) ||
    layer.imports.has(target) ||
    layer.packages.some((entry) => (entry.endsWith("*") ? target.startsWith(entry.slice(0, -1)) : target === entry));
  return isPermitted ? undefined : `${layer.path} must not import ${target}, see scripts/lint/layers.ts`;
}

function isLayered(file: string): boolean {
  return Object.keys(trees).some((tree) => file.startsWith(`${tree}/`));
}

function layerOf(file: string): Layer | undefined {
  return layers.find(({ path }) => file === path || file.startsWith(`${path}/`));
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

type Context = {
  readonly filename: string;
  /** The folder of the repository. */
  readonly options: readonly [string];
  report(problem: { readonly node: object; readonly message: string }): void;
};

/** All that import a module; an import type has its source too. */
type ImportNode = {
  readonly type: string;
  readonly source?: { readonly value?: unknown } | null;
  readonly importKind?: string;
  readonly exportKind?: string;
};

type Identifier = { readonly name?: unknown };

function isType({ type, importKind, exportKind }: ImportNode): boolean {
  return type === "TSImportType" || importKind === "type" || exportKind === "type";
}

const layersRule = {
  meta: { schema: [{ type: "string" }] },
  create(context: Context) {
    const file = relative(context.options[0], context.filename).replaceAll(sep, "/");
    const check = (node: ImportNode): void => {
      const specifier = node.source?.value;
      if (typeof specifier !== "string" || !node.source) {
        return;
      }
      const loadsNodeRed = specifier.startsWith("@node-red/") && !isType(node) && isLayered(file) && !loaders.has(file);
      const message = loadsNodeRed
        ? `${file} must not load ${specifier}, see scripts/lint/layers.ts`
        : findForbiddenImport(file, specifier);
      if (message !== undefined) {
        context.report({ node: node.source, message });
      }
    };
    return {
      ImportDeclaration: check,
      ImportExpression: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      TSImportType: check,
      // Renamed, it is still imported by its name; `module.createRequire` is a property.
      Identifier(node: Identifier) {
        if (node.name === "createRequire" && isLayered(file) && !loaders.has(file)) {
          context.report({
            node,
            message: `${file} must not load modules by createRequire, see scripts/lint/layers.ts`,
          });
        }
      },
    };
  },
};

export default { meta: { name: "flowgate" }, rules: { layers: layersRule } };
