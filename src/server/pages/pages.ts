import { createEndpoint, firstFolderOf } from "../pipeline/router.ts";
import type { RequestContext, RequestRoute } from "../pipeline/request-context.ts";
import { signInPaths } from "../../auth/sign-in-paths.ts";
import type { PageOptions, ServePage } from "./app.ts";

/** The routes of what browsers open. The pages are loaded when the first one is requested. */
export function createPages(options: PageOptions): [string, RequestRoute][] {
  let app: Promise<ServePage> | undefined;
  const serve = async (request: RequestContext) => {
    app ??= loadApp(options).catch((error: unknown) => {
      // Such as that no more files can be opened just now.
      app = undefined;
      throw error;
    });
    return (await app)(request);
  };
  const route = (path: string, methods?: readonly string[]) => createEndpoint(path, false, serve, methods);
  const { signIn, callback, signOut, protectedResource } = signInPaths;
  const { console, docs } = options;
  return [
    ...(console !== undefined || docs ? [route("/")] : []),
    ...(console === undefined ? [] : [route("/console"), route("/console/")]),
    ...(docs ? [route("/openapi.json"), route("/docs"), route("/docs/")] : []),
    ...(options.signIn === undefined
      ? []
      : [
          route(signIn, ["GET", "POST"]),
          // The routes of all issuers.
          route(firstFolderOf(callback), ["GET"]),
          route(signOut, ["GET", "POST"]),
          route(protectedResource),
        ]),
  ];
}

async function loadApp(options: PageOptions): Promise<ServePage> {
  const { createPageApp } = await import("./app.ts");
  return createPageApp(options);
}
