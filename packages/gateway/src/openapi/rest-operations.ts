import { formatTemplate } from "../routing/template.ts";
import type { Route } from "../routing/route.ts";
import type { Operation, OperationContext } from "./context.ts";
import type { Parameter } from "./document.ts";
import { describeOperation } from "./operation.ts";
import { bodiesByPath, describePath, hierarchyOf, pathKey } from "./path.ts";

/** The methods that a route for any method is described with. */
const anyMethods = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/** The operations of the routes, in their order. */
export function listRestOperations(routes: readonly Route[], context: OperationContext): Operation[] {
  const explicit = new Set(routes.map(({ httpMethod, template }) => `${httpMethod} ${hierarchyKey(template)}`));
  const bodies = bodiesByPath(routes);
  const pathNames = new Map<string, { path: string; names: string[] }>();
  return routes.flatMap((route) => {
    const described = describePath(route, bodies.get(pathKey(route.template)) ?? new Set(), context);
    // OpenAPI considers paths identical that differ in parameter names only, so the first names are used for all.
    const hierarchy = hierarchyOf(described.path);
    const first = pathNames.get(hierarchy) ?? {
      path: described.path,
      names: described.parameters.map(({ name }) => name),
    };
    pathNames.set(hierarchy, first);
    const parameters = described.parameters.map((each, index): Parameter => ({
      ...each,
      name: first.names[index] ?? each.name,
    }));
    return methodsOf(route, explicit).map((httpMethod): Operation => ({
      method: route.method,
      httpMethod,
      path: first.path,
      describe: (operationId) => describeOperation(route, operationId, parameters, context),
    }));
  });
}

/** The HTTP methods that a route is described with: for "*", those that no other route of the path has. */
function methodsOf({ httpMethod, template, variants }: Route, explicit: ReadonlySet<string>): readonly string[] {
  return httpMethod !== "*"
    ? [httpMethod]
    : anyMethods
        .filter((each) => !explicit.has(`${each} ${hierarchyKey(template)}`))
        .filter((each) => each !== "GET" || variants.every(({ body }) => body === ""));
}

const hierarchyKey = (template: Route["template"]): string =>
  formatTemplate(template).replaceAll(/\{\w+(?:\.\w+)*\}/g, "*");
