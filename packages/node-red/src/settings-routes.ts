import { type Fields, isFields } from "@flowgate/base/fields";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply } from "fastify";
import { authenticated, requires, signalOf } from "./access.ts";
import type { Caller, FlowRuntime, Host } from "./host.ts";
import { isObject, mergeFields } from "./merge-fields.ts";

export type SettingsRoutesOptions = {
  readonly host: Pick<Host, "userSettings"> & { readonly runtime: Pick<FlowRuntime, "settings"> };
  /** The version of Node-RED. */
  readonly version: string;
  /** The path below which HTTP-in nodes are served. */
  readonly httpNodeRoot: string;
  /** All permissions that a caller can have. Who has them may do everything. */
  readonly permissions: readonly string[];
};

/** Of the settings of a user. */
const bodyLimit = 256 * 1024;

/**
 * The settings of the runtime, as Node-RED's tools read them, and those that the editor keeps for each user. `editorSettings` are what the
 * page of the editor adds, which takes precedence.
 */
export function addSettingsRoutes(
  app: FastifyInstance,
  options: SettingsRoutesOptions,
  editorSettings: () => Promise<Fields>,
): void {
  const { runtime, userSettings } = options.host;
  const readUserSettings = async ({ username }: Caller): Promise<Fields> =>
    JSON.parse((await userSettings.read(username)) ?? "{}") as Fields;

  app.get("/settings", { config: requires("settings.read") }, async ({ caller }, reply) => ({
    ...(await readNodeSettings(runtime, reply)),
    ...ownSettings(caller, options),
    ...(await editorSettings()),
  }));
  app.get("/settings/user", { config: requires("settings.read") }, ({ caller }) => readUserSettings(caller));
  app.post("/settings/user", { config: authenticated, bodyLimit }, async ({ caller, body }, reply) => {
    if (!isObject(body)) {
      throw new FlowgateError("invalid_argument", "the body must be an object with settings");
    }
    const { telemetryEnabled: _, ...changed } = mergeFields(await readUserSettings(caller), body);
    const content = JSON.stringify(changed);
    if (content.length > bodyLimit) {
      throw new FlowgateError("payload_too_large", `the settings of a user may have at most ${bodyLimit} bytes`);
    }
    await userSettings.write(caller.username, content);
    return reply.status(204).send();
  });
}

/** The editor does not start without any. */
const contextStores = { default: "memory", stores: ["memory"] };

/** Settings of the editor itself, which nodes must not export: flows could change the page of the editor. */
const reserved: ReadonlySet<string> = new Set(
  `apiRootUrl authTokensSuffix get getLocal init load loadUserSettings refreshSettings remove
  removeLocal set setLocal theme editorTheme codeEditor markdownEditor mermaid paletteCategories
  nodeDefaults flowFilePretty project files git user`.split(/\s+/),
);

/** The settings that nodes export to the editor; empty if no process answers. */
async function readNodeSettings(runtime: Pick<FlowRuntime, "settings">, reply: FastifyReply): Promise<Fields> {
  const signal = signalOf(reply);
  try {
    const exported = await runtime.settings(signal);
    const { context, ...settings } = Object.fromEntries(
      Object.entries(exported).filter(
        ([name]) => /^[a-z][a-z\d]*$/i.test(name) && !reserved.has(name) && !(name in Object.prototype),
      ),
    );
    return { ...settings, context: readStores(context) };
  } catch (error) {
    if (error instanceof FlowgateError || signal.aborted) {
      return { context: contextStores };
    }
    throw error;
  }
}

/** The names of the context stores, which the editor inserts into its page. */
function readStores(value: unknown): typeof contextStores {
  const { default: name, stores } = isFields(value) ? value : {};
  const isName = (each: unknown): each is string => typeof each === "string" && /^[\w-]{1,100}$/.test(each);
  return isName(name) && Array.isArray(stores) && stores.every(isName) ? { default: name, stores } : contextStores;
}

function ownSettings(
  { username, permissions }: Caller,
  { version, httpNodeRoot, permissions: all }: SettingsRoutesOptions,
): Fields {
  const hasAll = all.every((permission) => permissions.includes(permission));
  return {
    version,
    httpNodeRoot,
    ...((username !== undefined || !hasAll) && {
      user: {
        ...(username === undefined ? { anonymous: true } : { username }),
        permissions: hasAll ? "*" : toNodeRedNames(permissions),
      },
    }),
    libraries: [
      { id: "local", label: "editor:library.types.local", user: false, icon: "font-awesome/fa-hdd-o" },
      {
        id: "examples",
        label: "editor:library.types.examples",
        user: false,
        icon: "font-awesome/fa-life-ring",
        types: ["flows"],
        readOnly: true,
      },
    ],
    flowEncryptionType: "user",
    externalModules: {
      autoInstall: false,
      palette: {
        allowInstall: permissions.includes("modules.write"),
        allowUpload: permissions.includes("modules.write"),
      },
      modules: { allowInstall: false },
    },
    diagnostics: { enabled: true, ui: true },
    telemetryEnabled: false,
    runtimeState: { enabled: true, ui: permissions.includes("runtime.write") },
  };
}

/** The names by which the editor asks for permissions. */
function toNodeRedNames(permissions: readonly string[]): string[] {
  const names: Readonly<Record<string, string>> = {
    "modules.read": "nodes.read",
    "modules.write": "nodes.write",
    "runtime.inject": "inject.write",
  };
  return [...new Set(permissions.flatMap((name) => [name, names[name] ?? name, name.replace(/@.*$/, "")]))];
}
