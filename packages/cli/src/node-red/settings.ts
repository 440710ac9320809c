import { resolve } from "node:path";
import { passwordProblem } from "./users.ts";
import type { ImportReport, ImportOutcome } from "./report.ts";
import { memberOf, reasonOf, type Setting, textOf, toJson } from "./settings-file.ts";

/** The context of a translation. */
type Context = {
  readonly settings: Setting;
  readonly folder: string;
  /** True if the flows are those of a project, and not of `flowFile`. */
  readonly hasProject: boolean;
  /** `path` is that of the option which is set to `value`. */
  readonly add: (
    name: string,
    setting: Setting,
    outcome: ImportOutcome,
    detail: string,
    path?: string | readonly string[],
    value?: unknown,
  ) => void;
};

type Translate = (setting: Setting, context: Context, name: string) => void;

/** Translates the settings of Node-RED but `adminAuth` and `externalModules`, which other files do. What is not known may be read by nodes. */
export function translateSettings(
  settings: Setting,
  { folder, hasProject }: Pick<Context, "folder" | "hasProject">,
  report: ImportReport,
): void {
  const add: Context["add"] = (name, { line }, outcome, detail, path, value) =>
    report.add(
      { name, file: `settings.js:${line}`, outcome, detail },
      typeof path === "string" ? path.split(".") : path,
      value,
    );
  if (settings.kind !== "object") {
    add("settings", settings, "not_possible", settings.kind === "code" ? settings.reason : "they are no object");
    return;
  }
  const context: Context = { settings, folder, hasProject, add };
  for (const [name, setting] of settings.members) {
    const translate = Object.hasOwn(translations, name) ? translations[name] : nodeSetting;
    translate?.(setting, context, name);
  }
}

function without(detail: string, outcome: ImportOutcome = "not_needed"): Translate {
  return (setting, { add }, name) => add(name, setting, outcome, detail);
}

const code = without("it is code, and the configuration is data: use a proxy", "not_possible");

/** A value of JSON that is the same here. */
function sameAs(path: string | readonly string[], outcome: ImportOutcome = "taken_over", more = ""): Translate {
  return (setting, { add }, name) => {
    const { value, problems } = toJson(setting);
    if (value === undefined) {
      add(name, setting, "not_possible", reasonOf(setting));
      return;
    }
    add(name, setting, outcome, `${typeof path === "string" ? path : path.join(".")}${more}`, path, value);
    addProblems(problems, add, name);
  };
}

/** Translates a setting that nodes read under the same name. */
const nodeSetting: Translate = (setting, context, name) => {
  if (setting.kind === "object" && setting.members.size === 0) {
    context.add(name, setting, "not_needed", "it is empty");
    return;
  }
  sameAs(["runtime", "nodeSettings", name])(setting, context, name);
};

const editor = without("it is about the editor");
const admin = without("the API has a port of its own, at /");

const translations: Readonly<Record<string, Translate>> = {
  flowFile(setting, { add, hasProject }, name) {
    if (hasProject) {
      add(name, setting, "not_needed", "the flows are those of the project");
    } else {
      add(name, setting, "taken_over", "its flows are deployed");
    }
  },
  flowFilePretty: without("flows are in the store"),
  userDir: without("specify this folder to import it"),
  nodesDir: without("nodes are loaded from modules only: make a module of them", "not_possible"),
  // Users are translated before.
  adminAuth: () => {},
  credentialSecret(setting, { add }, name) {
    if (setting.kind === "code") {
      const how =
        "to decrypt credentials, give import its value in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET";
      add(name, setting, "changed", `${setting.reason}: ${how}`);
      return;
    }
    add(name, setting, "changed", "it decrypts the credentials once: Flowgate encrypts them with a key of its own");
  },
  https: translateHttps,
  httpsRefreshInterval: without("changed files are loaded without a restart"),
  requireHttps: without("with runtime.http.tls, the port accepts TLS only, and redirects nothing", "changed"),
  httpNodeAuth: (setting, context, name) => translateUser(setting, context, name, "runtime.http.auth"),
  httpStaticAuth: (setting, context, name) => translateUser(setting, context, name, "runtime.http.staticAuth"),
  uiPort(setting, { add }, name) {
    const { fallback } = setting.kind === "code" ? setting : {};
    const { value } = toJson(fallback ?? setting);
    if (value === undefined) {
      add(name, setting, "not_possible", `${reasonOf(setting)}: set runtime.port`);
    } else if (fallback === undefined) {
      add(name, setting, "taken_over", "runtime.port", "runtime.port", value);
    } else {
      add(name, setting, "changed", "runtime.port, without the environment variable", "runtime.port", value);
    }
  },
  uiHost: sameAs("runtime.host"),
  httpServerOptions: nodeSetting,
  httpAdminRoot: admin,
  httpAdminMiddleware: code,
  httpAdminCookieOptions: without("tokens are not in cookies"),
  httpAdminCors(setting, context, name) {
    const { value } = toJson(memberOf(setting, "origin") ?? setting);
    const origins = originsOf(value);
    if (origins === undefined) {
      context.add(name, setting, "not_possible", `${reasonOf(setting, "its origin is no text or list")}: set cors`);
    } else {
      context.add(name, setting, "taken_over", "cors.origins", "cors.origins", origins);
    }
  },
  httpNodeRoot(setting, { add }, name) {
    const root = textOf(setting);
    if (root === undefined) {
      add(name, setting, "not_possible", setting.kind === "code" ? setting.reason : "the port can't be turned off");
      return;
    }
    add(name, setting, "taken_over", "runtime.http.root", "runtime.http.root", rootOf(root));
  },
  httpNodeCors(setting, { add }, name) {
    const cors = translateCors(setting);
    if (cors === undefined) {
      add(
        name,
        setting,
        "not_possible",
        `${reasonOf(setting, "its origin is no text or list")}: set runtime.http.cors`,
      );
      return;
    }
    add(name, setting, "taken_over", "runtime.http.cors", "runtime.http.cors", cors);
  },
  httpNodeMiddleware: code,
  httpStatic: translateStatic,
  httpStaticRoot: without("it is part of runtime.http.static", "taken_over"),
  httpStaticCors: without("it is part of runtime.http.static", "taken_over"),
  runtimeState: without("flowgate stop and start, and the API, are always available"),
  diagnostics: without("GET /settings and /metrics have that"),
  telemetry: without("Flowgate sends none"),
  logging: translateLogging,
  contextStorage: translateStores,
  // Translated with the modules that the flows need.
  externalModules: () => {},
  disableEditor: editor,
  editorTheme: editor,
  paletteCategories: editor,
  nodeDefaults: editor,
  functionTimeout: without("the editor sets it on new nodes only: see globalFunctionTimeout"),
  functionExternalModules: sameAs("runtime.nodeSettings.functionExternalModules"),
  functionGlobalContext: translateGlobalContext,
  fileWorkingDirectory: sameAs(
    "runtime.nodeSettings.fileWorkingDirectory",
    "changed",
    ": permit it with runtime.allow.fileSystemWrite",
  ),
  nodeCloseTimeout: sameAs("runtime.nodeCloseTimeoutMs"),
  webSocketNodeVerifyClient: without("it is code: use runtime.http.auth or a proxy", "not_possible"),
  safeMode: without("flowgate stop keeps flows from running", "changed"),
  readOnly: without("give users permissions without flows.write", "changed"),
  verbose: without("set log.level: debug", "changed"),
  httpRoot: without("deprecated: use httpNodeRoot in settings.js, or set runtime.http.root", "not_possible"),
};

/** `problems`: members that are code, by their paths. */
function addProblems(problems: ReturnType<typeof toJson>["problems"], add: Context["add"], name: string): void {
  for (const { path, setting } of problems) {
    add(`${name}.${path}`, setting, "not_possible", setting.reason);
  }
}

function rootOf(root: string): string {
  return `/${root.split("/").filter(Boolean).join("/")}`;
}

function originsOf(value: unknown): readonly unknown[] | undefined {
  const origins = Array.isArray(value) ? value : [value];
  return origins.every((origin) => typeof origin === "string") ? origins : undefined;
}

/** The options of the package `cors`; undefined: they can't be translated. */
function translateCors(setting: Setting): object | undefined {
  const { value, problems } = toJson(setting);
  const {
    origin = "*",
    methods,
    allowedHeaders,
    exposedHeaders,
    credentials,
    maxAge,
  } = Object(value) as Record<string, unknown>;
  const origins = originsOf(origin);
  if (origins === undefined || problems.length > 0 || value === undefined) {
    return undefined;
  }
  return {
    origins,
    ...(methods !== undefined && { methods: listOf(methods) }),
    ...(allowedHeaders !== undefined && { allowedHeaders: listOf(allowedHeaders) }),
    ...(exposedHeaders !== undefined && { exposedHeaders: listOf(exposedHeaders) }),
    ...(credentials !== undefined && { credentials }),
    ...(maxAge !== undefined && { maxAgeSeconds: maxAge }),
  };
}

function listOf(value: unknown): unknown {
  return typeof value === "string" ? value.split(",").map((each) => each.trim()) : value;
}

function translateUser(setting: Setting, { add }: Context, name: string, path: string): void {
  const [username, password] = [textOf(memberOf(setting, "user")), textOf(memberOf(setting, "pass"))];
  if (username === undefined || password === undefined) {
    add(name, setting, "not_possible", reasonOf(setting, `user and pass are no texts: set ${path}`));
    return;
  }
  const problem = passwordProblem(password);
  if (problem !== undefined) {
    add(name, setting, "not_possible", problem);
    return;
  }
  const detail = name === "httpNodeAuth" ? `${path}, which WebSockets need too` : path;
  add(name, setting, "taken_over", detail, path, { username, password });
}

function translateHttps(setting: Setting, { add, folder }: Context, name: string): void {
  const [key, cert] = ["key", "cert"].map((member) => fileOf(memberOf(setting, member)));
  if (key === undefined || cert === undefined) {
    add(name, setting, "not_possible", "its key and certificate are not read from files: set runtime.http.tls");
    return;
  }
  const detail = "runtime.http.tls: check the paths, which were relative to where Node-RED was started";
  const files = { certFile: resolve(folder, cert), keyFile: resolve(folder, key) };
  add(name, setting, "changed", detail, "runtime.http.tls", files);
}

function fileOf(setting: Setting | undefined): string | undefined {
  return setting?.kind === "code" ? setting.readFile : undefined;
}

function translateStatic(setting: Setting, { add, settings }: Context, name: string): void {
  const prefix = textOf(memberOf(settings, "httpStaticRoot")) ?? "/";
  const shared = memberOf(settings, "httpStaticCors");
  const items = setting.kind === "list" ? setting.items : [setting];
  const folders: object[] = [];
  for (const [at, item] of items.entries()) {
    const label = setting.kind === "list" ? `${name}[${at}]` : name;
    const path = textOf(item) ?? textOf(memberOf(item, "path"));
    if (path === undefined) {
      add(label, item, "not_possible", reasonOf(item, "it has no path"));
      continue;
    }
    const corsSetting = memberOf(item, "cors") ?? shared;
    const cors = corsSetting && translateCors(corsSetting);
    const options = memberOf(item, "options");
    const maxAge = secondsOf(memberOf(options, "maxAge"));
    folders.push({
      path,
      root: rootOf(`${prefix}/${textOf(memberOf(item, "root")) ?? ""}`),
      ...(maxAge !== undefined && { maxAgeSeconds: maxAge }),
      ...(cors !== undefined && { cors }),
    });
    const others = options?.kind === "object" ? [...options.members].filter(([key]) => key !== "maxAge") : [];
    const lost = others.map(([key, option]): [string, Setting] => [`options.${key}`, option]);
    for (const member of ["middleware", "options"] as const) {
      const found = memberOf(item, member);
      if (found?.kind === "code") {
        lost.push([member, found]);
      }
    }
    if (corsSetting !== undefined && cors === undefined) {
      lost.push(["cors", corsSetting]);
    }
    for (const [member, lostSetting] of lost) {
      add(`${label}.${member}`, lostSetting, "not_possible", reasonOf(lostSetting, "there is no such option"));
    }
  }
  if (folders.length > 0) {
    add(name, setting, "taken_over", "runtime.http.static", "runtime.http.static", folders);
  }
}

/** Express has milliseconds, or a text such as `1d`. */
function secondsOf(setting: Setting | undefined): number | undefined {
  const value = setting?.kind === "value" ? setting.value : undefined;
  if (typeof value === "number") {
    return Math.floor(value / 1_000);
  }
  const [, count, unit = ""] = /^(\d+) *([smhdw])$/.exec(String(value)) ?? [];
  const seconds = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }[unit];
  return count === undefined || seconds === undefined ? undefined : Number(count) * seconds;
}

const loggers: Readonly<Record<string, string>> = {
  metrics: "GET /metrics has them",
  audit: "the audit log is always written: flowgate audit list shows it",
};

function translateLogging(setting: Setting, { add }: Context, name: string): void {
  for (const [logger, options] of setting.kind === "object" ? setting.members : []) {
    const level = textOf(memberOf(options, "level"));
    if (logger === "console" && level !== undefined) {
      add(`${name}.console`, options, "taken_over", "log.level", "log.level", level === "off" ? "silent" : level);
    } else {
      add(
        `${name}.${logger}`,
        options,
        "not_possible",
        reasonOf(options, "the log is JSON on stdout: collect it there"),
      );
    }
    for (const [member, detail] of Object.entries(loggers)) {
      const found = logger === "console" ? memberOf(options, member) : undefined;
      if (found !== undefined) {
        add(`${name}.console.${member}`, found, "not_needed", detail);
      }
    }
  }
}

/** Each by itself, so that one which is not possible here leaves the others. */
function translateStores(setting: Setting, context: Context, name: string): void {
  if (setting.kind !== "object") {
    sameAs("runtime.contextStorage")(setting, context, name);
    return;
  }
  for (const [store, options] of setting.members) {
    sameAs(["runtime", "contextStorage", store])(options, context, `${name}.${store}`);
  }
}

function translateGlobalContext(setting: Setting, { add }: Context, name: string): void {
  const { value, problems } = toJson(setting);
  const isEmpty = Object.keys(Object(value) as object).length === 0;
  if (!isEmpty) {
    add(name, setting, "taken_over", "runtime.globalContext", "runtime.globalContext", value);
  } else if (problems.length === 0) {
    add(name, setting, setting.kind === "code" ? "not_possible" : "not_needed", reasonOf(setting, "it is empty"));
  }
  for (const { path, setting: member } of problems) {
    add(`${name}.${path}`, member, "not_possible", `${member.reason}: load modules in the Setup tab of function nodes`);
  }
}
