import { expect, test } from "vitest";
import { defaultMemoryMb } from "../../src/options/limits.ts";
import { OptionsError, type OptionsInput, parseOptions } from "../../src/options/parse.ts";

const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
const ada = { username: "ada", password: hash, permissions: "*" };

/** The problems of options of any type. */
function problems(input: unknown): string[] {
  try {
    parseOptions(input as OptionsInput);
  } catch (error) {
    if (error instanceof OptionsError) {
      return error.message.split("\n");
    }
    throw error;
  }
  return [];
}

test("rejects one port for two servers, but accepts 0 for both", () => {
  expect(() => parseOptions({ port: 5000, runtime: { port: 5000 } })).toThrow(
    "runtime.port: must be different from port, which the API uses",
  );
  expect(parseOptions({ port: 5000, runtime: { port: 5000, host: "127.0.0.2" } }).runtime.port).toBe(5000);
  expect(parseOptions({ port: 0, runtime: { port: 0 } }).port).toBe(0);
});

test("rejects entries of runtime.network that are no addresses", () => {
  expect(problems({ runtime: { network: { allow: ["10.0.0.0/8", "example.com"], deny: "10.0.0.1" } } })).toEqual([
    "runtime.network.allow[1]: must be an address or a subnet, with or without a port, such as 10.0.0.0/8, 192.0.2.1:443, [2001:db8::/32]:443 or *:443; host names are not possible",
    "runtime.network.deny: must be a list of addresses and subnets",
  ]);
});

const wildcard = 'must be a path without "*", which would let flows out of their directory';
const permittedWildcard = 'must be a path without "*"; "/" permits all files';

test.each<[unknown, string[]]>([
  [{ dataDir: "/srv/a*" }, [`dataDir: ${wildcard}`]],
  [{ runtime: { dir: "/srv/*/flows" } }, [`runtime.dir: ${wildcard}`]],
  [
    { runtime: { allow: { fileSystemRead: ["/srv", "*"] } } },
    [`runtime.allow.fileSystemRead[1]: ${permittedWildcard}`],
  ],
  [{ runtime: { allow: { fileSystemWrite: ["/srv/*"] } } }, [`runtime.allow.fileSystemWrite[0]: ${permittedWildcard}`]],
  [{ dataDir: "/srv/a,b [c] ?", runtime: { allow: { fileSystemRead: ["/"] } } }, []],
])("rejects wildcards in the paths of the sandbox: %j", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

test("has a default for everything", () => {
  expect(parseOptions({})).toEqual({
    previousCredentialSecrets: [],
    roles: {},
    nodeRed: { editor: false },
    approvals: { required: [], expiryDays: 7, maxOpen: 100, maxOpenPerUser: 20 },
    history: { maxRevisions: 10_000 },
    modules: { allow: ["*"], deny: [], scripts: [], timeoutMs: 300_000, sizeMb: 1_024 },
    host: "localhost",
    port: 8080,
    dataDir: "./data",
    trustedProxies: [],
    allowUnauthenticated: false,
    hosts: [],
    console: true,
    docs: true,
    reflection: "open",
    metrics: { enabled: true, nodes: false, host: "localhost" },
    runtime: {
      mode: "each",
      leaseMs: 10_000,
      host: "localhost",
      port: 1880,
      dir: "data/runtime",
      modules: true,
      http: { root: "/", static: [] },
      contextStorage: {},
      globalContext: {},
      nodeSettings: {},
      deadlineMs: 30_000,
      nodeCloseTimeoutMs: 5000,
      freshProcess: "full",
      isolate: "auto",
      quarantine: "off",
      user: 65_531,
      limits: { processes: 512, openFiles: 65_536, fileSizeMb: 4_096 },
      restart: { backoffMs: 100, maxBackoffMs: 10_000 },
      safeMode: { exits: 5, withinMs: 600_000 },
      network: { deny: [] },
      allow: {
        fileSystemRead: [],
        fileSystemWrite: [],
        childProcess: false,
        worker: false,
        nativeAddons: false,
        env: [],
      },
    },
    limits: {
      bodyBytes: 16_777_216,
      inFlight: 1000,
      inFlightPerSource: 250,
      eventLoopDelayMs: 500,
      deadlineMs: 3_600_000,
      connections: 10_000,
      connectionsPerSource: 1000,
      callsPerConnection: 250,
      headerBytes: 16_384,
      headerFields: 128,
      firstByteTimeoutMs: 10_000,
      headersTimeoutMs: 20_000,
      requestTimeoutMs: 300_000,
      idleTimeoutMs: 72_000,
      stallTimeoutMs: 30_000,
      anonymousStallTimeoutMs: 5_000,
      memoryMb: defaultMemoryMb(),
      memoryWaitMs: 10_000,
      analysisMs: 5_000,
      deploymentAnalysisMs: 30_000,
      minBytesPerSecond: 240,
    },
    live: { journal: { size: 64, age: 7 } },
    webhooks: { network: { deny: [] }, targets: [] },
    audit: { retentionDays: 400 },
    drain: { delayMs: 0, graceMs: 10_000 },
    log: { level: "info" },
  });
});

test("parses adminAuth, with permissions as a string or a list", () => {
  const { adminAuth } = parseOptions({
    adminAuth: {
      users: [ada, { ...ada, username: "bob", permissions: ["flows.read", "read"] }],
      default: { permissions: "read" },
    },
  });
  expect(adminAuth).toEqual({
    type: "credentials",
    users: [
      { ...ada, permissions: ["*"] },
      { ...ada, username: "bob", permissions: ["flows.read", "read"] },
    ],
    issuers: [],
    default: { permissions: ["read"] },
    clientIds: ["service-admin", "service-editor"],
    tokenLifetimeSeconds: 604_800,
    maxTokensPerUser: 100,
    maxTokens: 1000,
  });
});

test("opens reflection by default only if no token is needed", () => {
  const adminAuth = { users: [ada] };
  expect(parseOptions({}).reflection).toBe("open");
  expect(parseOptions({ adminAuth }).reflection).toBe("authenticated");
  expect(parseOptions({ adminAuth, reflection: "open" }).reflection).toBe("open");
  expect(parseOptions({ reflection: "off" }).reflection).toBe("off");
  expect(problems({ reflection: "authenticated" })).toEqual([
    "reflection: can't be authenticated, since neither adminAuth nor identity is set: set one of them, or use off or open",
  ]);
});

const fileStore = { base: "context", cache: true, flushInterval: 30 };

test.each<[contextStorage: unknown, expected: object | string[]]>([
  [
    { default: "memory", memory: { module: "memory" }, file: { module: "localfilesystem" } },
    { default: "memory", memory: { module: "memory" }, file: { module: "localfilesystem", config: fileStore } },
  ],
  [
    { default: { module: "localfilesystem", config: { flushInterval: 0.5, base: "values" } } },
    { default: { module: "localfilesystem", config: { ...fileStore, flushInterval: 0.5, base: "values" } } },
  ],
  [
    { default: "nowhere", other: "default" },
    [
      "runtime.contextStorage.other: must be a store with one of these modules: memory, localfilesystem, database",
      "runtime.contextStorage.default: must be a store, or the name of another store",
    ],
  ],
  [
    { a: { module: "localfilesystem" }, b: { module: "localfilesystem" } },
    ["runtime.contextStorage.b: has the same config.base as a, so that each would overwrite the values of the other"],
  ],
  [
    { a: { module: "redis" } },
    ["runtime.contextStorage.a.module: must be a store with one of these modules: memory, localfilesystem, database"],
  ],
  [
    { a: { module: "localfilesystem", config: { base: "../..", dir: "/srv" } } },
    [
      "runtime.contextStorage.a.config.base: must be the name of a folder: letters, digits, _ and -",
      "runtime.contextStorage.a.config.dir: unknown key",
    ],
  ],
  [{ "a b": { module: "memory" } }, ["runtime.contextStorage['a b']: must be a name of letters, digits and _"]],
])("stores of context: %j", (contextStorage, expected) => {
  const input = { runtime: { contextStorage } };
  expect(
    Array.isArray(expected) ? problems(input) : parseOptions(input as OptionsInput).runtime.contextStorage,
  ).toEqual(expected);
});

const flowUser = { username: "ada", password: hash };

test.each<[http: unknown, string[]]>([
  [{ root: "/api/v1", auth: flowUser, staticAuth: flowUser, static: [{ path: "/srv/www", root: "/www" }] }, []],
  [{ static: [{ path: "data/runtime/www" }] }, []],
  [{ cors: { origins: ["*"] }, tls: { certFile: "a", keyFile: "b" } }, []],
  ...["api", "/api/", "/a?b", "//", "/:id"].map((root): [unknown, string[]] => [
    { root },
    ["runtime.http.root: must be a path such as /api, without a slash at the end"],
  ]),
  [{ auth: { username: "a:b", password: hash } }, ["runtime.http.auth.username: must not contain a colon"]],
  [
    { auth: { username: "a", password: "hunter2" } },
    [
      "runtime.http.auth.password: must be an argon2id or bcrypt hash, not the password itself, with a cost within the supported range; `flowgate hash-password` creates one",
    ],
  ],
  [
    { cors: { origins: ["*"], credentials: true } },
    ['runtime.http.cors.credentials: is not possible with "*" in origins: list the origins'],
  ],
  ...["/", "data", "data/modules", "/srv/keys"].map((path): [unknown, string[]] => [
    { static: [{ path: "/srv/www" }, { path }], tls: { certFile: "a", keyFile: "/srv/keys/flows.key" } },
    [
      "runtime.http.static[1].path: would show files of the service: choose a folder outside of dataDir without keys, or one in runtime.dir",
    ],
  ]),
])("the port of HTTP-in nodes: %j", (http, expected) => {
  expect(problems({ runtime: { http } })).toEqual(expected);
});

test("folders of files contain no secrets of the service", () => {
  const http = { static: [{ path: "/srv/www" }] };
  const problem =
    "runtime.http.static[0].path: would show files of the service: choose a folder outside of dataDir without keys, or one in runtime.dir";
  expect(problems({ runtime: { http }, store: "sqlite:/srv/www/flowgate.db" })).toEqual([problem]);
  expect(problems({ runtime: { http }, modules: { npmrc: "/srv/www/npmrc" } })).toEqual([problem]);
  expect(problems({ runtime: { http }, store: "sqlite:/srv/flowgate.db", modules: { npmrc: "/srv/npmrc" } })).toEqual(
    [],
  );
});

test.each<[runtime: unknown, string[]]>([
  [
    { globalContext: { a: { b: [1, null, "x"] } }, nodeSettings: { ui: { path: "u" }, globalFunctionTimeout: 0.5 } },
    [],
  ],
  [{ globalContext: { "a.b": 1 } }, ["runtime.globalContext['a.b']: must be a name of letters, digits and _"]],
  [
    { nodeSettings: { httpNodeRoot: "/api", get: 1, userDir: "/" } },
    [
      "runtime.nodeSettings.httpNodeRoot: is the option runtime.http.root",
      "runtime.nodeSettings.get: is the name of a function of Node-RED",
      "runtime.nodeSettings.userDir: is set by the service",
    ],
  ],
  [
    { nodeSettings: { debugMaxLength: "long", apiMaxLength: "5 megabytes" } },
    [
      "runtime.nodeSettings.apiMaxLength: must be a size such as 5mb",
      "runtime.nodeSettings.debugMaxLength: must be a whole number from 0 to 9007199254740991",
    ],
  ],
])("what nodes and flows read of the configuration: %j", (runtime, expected) => {
  expect(problems({ runtime })).toEqual(expected);
});

test("puts the runtime's directory in the data directory by default", () => {
  expect(parseOptions({ dataDir: "/var/lib/flowgate" }).runtime.dir).toBe("/var/lib/flowgate/runtime");
  expect(parseOptions({ runtime: { dir: "/srv" } }).runtime.dir).toBe("/srv");
});

const permissionNames =
  "must be one or several of: *, read, flows.read, flows.write, revisions.read, revisions.write, proposals.read, flows.propose, flows.approve, runtime.write, runtime.read, runtime.inject, context.read, context.write, modules.read, modules.write, library.write, settings.read, tokens.read, tokens.write, audit.read, events.read, logs.read, debug.read, metrics.read, library.read, flows.deploy_unapproved, flows.write@tab:LABEL, viewer, deployer, operator, admin";

test.each<[unknown, string[]]>([
  [null, ["options: must be keys and values"]],
  [{ port: "8080" }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: 65_536 }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: 1.5 }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: null }, ["port: must be a whole number from 0 to 65535"]],
  [{ dataDir: "" }, ["dataDir: must not be empty"]],
  [{ store: "/var/flows.db" }, ["store: must be a URL such as sqlite:/var/lib/flowgate/flowgate.db"]],
  [{ store: "sqlite:" }, ["store: must be a URL such as sqlite:/var/lib/flowgate/flowgate.db"]],
  [{ runtime: null }, ["runtime: must be keys and values"]],
  [{ runtime: { allow: { env: "PATH" } } }, ["runtime.allow.env: must be a list of names"]],
  [{ reflection: "closed" }, ["reflection: must be one of: off, authenticated, open"]],
  [{ log: { level: "loud" } }, ["log.level: must be one of: trace, debug, info, warn, error, fatal, silent"]],
  [{ limits: { bodyBites: 1 }, hots: 1 }, ["limits.bodyBites: unknown key", "hots: unknown key"]],
  [JSON.parse('{"__proto__": {"port": 1}}'), ["__proto__: unknown key"]],
  [{ adminAuth: null }, ["adminAuth: must be keys and values"]],
  [{ adminAuth: {} }, ["adminAuth.users: must name at least one user, unless issuers is set"]],
  [{ adminAuth: { users: [] } }, ["adminAuth.users: must name at least one user, unless issuers is set"]],
  [{ adminAuth: { users: "ada" } }, ["adminAuth.users: must be a list of users"]],
  [{ adminAuth: { users: [ada, ada] } }, ["adminAuth.users[1].username: must be unique: users[0] has the same value"]],
  [
    { modules: { npmrc: "./data/runtime/.npmrc" } },
    ["modules.npmrc: is writable by flows: choose a path outside of runtime.dir and runtime.allow.fileSystemWrite"],
  ],
  [
    { modules: { registry: "/srv/flows/packages" }, runtime: { allow: { fileSystemWrite: ["/srv/flows"] } } },
    ["modules.registry: is writable by flows: choose a path outside of runtime.dir and runtime.allow.fileSystemWrite"],
  ],
  [
    { modules: { registry: "https://user:secret@npm.example", allow: ["a b"], scripts: ["../a"] } },
    [
      "modules.registry: must be an http or https URL without user and password, or the absolute path of a folder",
      "modules.allow[0]: must be the name of a module, in which * stands for any characters, with or without a range of versions, such as node-red-contrib-* or @scope/name@^1.2",
      "modules.scripts[0]: must be the name of a package",
    ],
  ],
  [
    { adminAuth: { users: [{ ...ada, permissions: "flows.wirte" }] } },
    [`adminAuth.users[0].permissions: ${permissionNames}`],
  ],
  [
    { adminAuth: { users: [{ ...ada, permissions: ["read", "flow.read"] }] } },
    [`adminAuth.users[0].permissions: ${permissionNames}`],
  ],
  [
    { adminAuth: { users: [ada], default: {} } },
    ["adminAuth.default.permissions: must be a permission or a list of permissions"],
  ],
  [{ adminAuth: { users: [ada], type: "oauth" } }, ['adminAuth.type: must be "credentials"']],
  [
    { adminAuth: { users: [{ username: "ada", password: "hunter2", permissions: "hunter2" }] }, port: "hunter2" },
    [
      "port: must be a whole number from 0 to 65535",
      "adminAuth.users[0].password: must be an argon2id or bcrypt hash, not the password itself, with a cost within the supported range; `flowgate hash-password` creates one",
      `adminAuth.users[0].permissions: ${permissionNames}`,
    ],
  ],
])("says what is wrong with %j", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

test("replaces roles by their permissions, also those of the options, everywhere", () => {
  const { adminAuth, identity } = parseOptions({
    roles: { auditor: ["audit.read", "viewer"], viewer: ["flows.read", "settings.read"], deployer: ["deployer", "*"] },
    adminAuth: {
      users: [
        { ...ada, permissions: ["auditor", "flows.write", "read"] },
        { ...ada, username: "bob", permissions: "viewer" },
        { ...ada, username: "eve", permissions: "deployer" },
      ],
      issuers: [{ ...issuer, rules: [{ claims: { project_id: "42" }, permissions: "operator" }] }],
      default: { permissions: "auditor" },
    },
    identity: { ...forwarded, rules: [{ ...rule, permissions: ["viewer", "auditor"] }] },
    trustedProxies: ["::1"],
  });
  const operator = ["read", "debug.read", "logs.read", "context.read", "context.write", "runtime.write"];
  expect(adminAuth).toMatchObject({
    users: [
      { permissions: ["audit.read", "read", "flows.write"] },
      { permissions: ["flows.read", "settings.read"] },
      { permissions: ["read", "flows.write", "flows.propose", "revisions.write", "library.write", "*"] },
    ],
    issuers: [{ rules: [{ permissions: [...operator, "runtime.inject"] }] }],
    default: { permissions: ["audit.read", "read"] },
  });
  expect(identity?.rules).toMatchObject([{ permissions: ["flows.read", "settings.read", "audit.read", "read"] }]);
});

const roleNames =
  "roles: must have names of lower-case letters, digits and hyphens, such as release-manager, other than read";

test.each<[unknown, string[]]>([
  [{ roles: { "release-manager": "deployer" } }, []],
  [{ roles: { read: "*" } }, [roleNames]],
  [{ roles: { "flows.write": "*" } }, [roleNames]],
  [{ roles: { "*": "*" } }, [roleNames]],
  [{ roles: { one: "flows" } }, [`roles.one: ${permissionNames}`]],
  [{ roles: { one: "viewer", two: "one" } }, [`roles.two: ${permissionNames}`]],
  [{ roles: ["viewer"] }, ["roles: must be names and their permissions"]],
  [
    { roles: { one: "viewer" }, adminAuth: { users: [{ ...ada, permissions: "two" }] } },
    [`adminAuth.users[0].permissions: ${permissionNames}, one`],
  ],
])("says what of the roles %j does not fit", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

const issuer = {
  name: "gitlab",
  issuer: "https://gitlab.example",
  audience: "https://flows.example",
  jwksUrl: "https://gitlab.example/oauth/discovery/keys",
  rules: [{ claims: { project_id: "42" }, permissions: "read" }],
};
const keyUrl =
  "adminAuth.issuers[0].jwksUrl: must be an https URL, or an http URL of this machine such as http://127.0.0.1:8443/keys, without user and password";
const oneOfBoth = "adminAuth.issuers[0].jwksUrl: set either this or jwksFile, but not both";

test.each<[unknown[], string[]]>([
  [[issuer], []],
  [[{ ...issuer, jwksUrl: undefined, jwksFile: "keys.json" }], []],
  [[{ ...issuer, jwksUrl: "http://localhost:8080/keys" }], []],
  [[{ ...issuer, jwksUrl: "http://[::1]:8080/keys" }], []],
  [[{ ...issuer, jwksUrl: "http://gitlab.example/keys" }], [keyUrl]],
  [[{ ...issuer, jwksUrl: "https://user:hunter2@gitlab.example/keys" }], [keyUrl]],
  [[{ ...issuer, jwksUrl: "file:///etc/keys.json" }], [keyUrl]],
  [[{ ...issuer, jwksUrl: undefined }], [oneOfBoth]],
  [[{ ...issuer, jwksFile: "keys.json" }], [oneOfBoth]],
  [
    [{ ...issuer, name: "GitLab" }],
    ["adminAuth.issuers[0].name: must be lower-case letters, digits and hyphens, such as gitlab, other than spiffe"],
  ],
  [[{ ...issuer, audience: "" }], ["adminAuth.issuers[0].audience: must not be empty"]],
  ...["HS256", "none", "rs256"].map((name): [unknown[], string[]] => [
    [{ ...issuer, algorithms: [name] }],
    [
      "adminAuth.issuers[0].algorithms[0]: must be one of: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA",
    ],
  ]),
  [[{ ...issuer, algorithms: [] }], ["adminAuth.issuers[0].algorithms: must name at least one algorithm"]],
  [
    [{ ...issuer, clockSkewSeconds: 601 }],
    ["adminAuth.issuers[0].clockSkewSeconds: must be a whole number from 0 to 600"],
  ],
  [[{ ...issuer, rules: [] }], ["adminAuth.issuers[0].rules: must have at least one rule"]],
  [
    [{ ...issuer, rules: [{ claims: {}, permissions: "read" }] }],
    ["adminAuth.issuers[0].rules[0].claims: must name at least one claim"],
  ],
  [
    [{ ...issuer, rules: [{ claims: { ref_protected: true }, permissions: "read" }] }],
    ["adminAuth.issuers[0].rules[0].claims.ref_protected: must be text"],
  ],
  [
    [issuer, issuer],
    [
      "adminAuth.issuers[1].name: must be unique: issuers[0] has the same value",
      "adminAuth.issuers[1].issuer: must be unique: issuers[0] has the same value",
    ],
  ],
])("says what of the issuers %j does not fit", (issuers, expected) => {
  expect(problems({ adminAuth: { issuers } })).toEqual(expected);
});

const signIn = { url: "https://flows.example" };
const client = { clientId: "flowgate" };
const signInUrl =
  "adminAuth.signIn.url: must be an https URL such as https://flows.example, or an http URL of this machine, without a path";

test.each<[object, string[]]>([
  [{ signIn, issuers: [{ ...issuer, signIn: client }] }, []],
  [{ signIn, users: [ada] }, []],
  [{ signIn: {}, users: [ada] }, []],
  [
    { signIn: {}, issuers: [{ ...issuer, signIn: client }] },
    ["adminAuth.issuers[0].signIn: requires adminAuth.signIn.url, the URL of this service"],
  ],
  [{ signIn: { url: "http://127.0.0.1:8080/" }, users: [ada] }, []],
  ...["http://flows.example", "https://flows.example/path", "https://user@flows.example", "flows.example"].map(
    (url): [object, string[]] => [{ signIn: { url }, users: [ada] }, [signInUrl]],
  ),
  [
    { issuers: [{ ...issuer, signIn: client }] },
    ["adminAuth.issuers[0].signIn: requires adminAuth.signIn.url, the URL of this service"],
  ],
  [
    { signIn, issuers: [{ ...issuer, issuer: "http://gitlab.example", signIn: client }] },
    [
      "adminAuth.issuers[0].issuer: must be an https URL, or an http URL of this machine, so that people can sign in there",
    ],
  ],
  [
    { signIn, issuers: [{ ...issuer, signIn: { ...client, clientSecret: "a", clientSecretFile: "b" } }] },
    ["adminAuth.issuers[0].signIn.clientSecretFile: must not be set together with clientSecret"],
  ],
  [
    { signIn, issuers: [{ ...issuer, signIn: { ...client, scopes: ["profile"] } }] },
    ['adminAuth.issuers[0].signIn.scopes: must contain "openid"'],
  ],
  [
    { signIn, issuers: [{ ...issuer, signIn: { ...client, parameters: { redirect_uri: "https://evil.example" } } }] },
    [
      "adminAuth.issuers[0].signIn.parameters: must not contain a parameter that the sign-in sets itself, such as scope or redirect_uri",
    ],
  ],
])("says what of the sign-in %j does not fit", (adminAuth, expected) => {
  expect(problems({ adminAuth })).toEqual(expected);
});

test("no user has the name of a caller of an issuer", () => {
  const users = [ada, { ...ada, username: "gitlab" }, { ...ada, username: "gitlab:someone" }];
  expect(problems({ adminAuth: { users, issuers: [issuer] } })).toEqual([
    "adminAuth.users[2].username: must not begin with the name of an issuer and a colon",
  ]);
});

const files = { certFile: "tls.crt", keyFile: "tls.key" };
const mutual = { ...files, clientCaFile: "ca.crt", clientCertificate: "require" };
const rule = { id: "spiffe://example.org/ns/prod/sa/deployer", permissions: "read" } as const;
const forwarded = { source: "forwarded", rules: [rule] } as const;
const subnet = "must be an address such as 10.0.0.1 or a subnet such as 10.0.0.0/8, but not all addresses";
const spiffe = "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*";

test.each<[unknown, string[]]>([
  [{ tls: files }, []],
  [{ tls: mutual }, []],
  [{ tls: mutual, identity: { source: "certificate", rules: [rule] } }, []],
  [{ identity: forwarded, trustedProxies: ["10.0.0.0/8", "::1", "127.0.0.6"] }, []],
  [{ identity: { ...forwarded, rules: [{ ...rule, id: "spiffe://example.org/*" }] }, trustedProxies: ["::1"] }, []],
  [{ tls: {} }, ["tls.certFile: is missing: it must be text", "tls.keyFile: is missing: it must be text"]],
  [{ tls: { ...files, minVersion: "TLSv1.1" } }, ["tls.minVersion: must be one of: TLSv1.2, TLSv1.3"]],
  [
    { tls: { ...files, clientCertificate: "require" } },
    ["tls.clientCaFile: is missing: it is required to verify client certificates"],
  ],
  [
    { tls: { ...files, clientCaFile: "ca.crt" } },
    ['tls.clientCaFile: has no effect unless tls.clientCertificate is "request" or "require"'],
  ],
  [
    { tls: files, identity: { ...forwarded, source: "certificate" } },
    ['identity.source: requires client certificates: set tls.clientCertificate to "request" or "require"'],
  ],
  [{ identity: forwarded }, ["identity.source: requires trustedProxies: other clients could forge the header"]],
  [{ trustedProxies: ["proxy.example"] }, [`trustedProxies[0]: ${subnet}`]],
  [{ trustedProxies: ["10.0.0.0/33"] }, [`trustedProxies[0]: ${subnet}`]],
  [{ trustedProxies: ["::1", "0.0.0.0/0"] }, [`trustedProxies[1]: ${subnet}`]],
  [{ trustedProxies: ["::/0"] }, [`trustedProxies[0]: ${subnet}`]],
  [{ identity: { ...forwarded, rules: [] }, trustedProxies: ["::1"] }, ["identity.rules: must have at least one rule"]],
  [
    { identity: { ...forwarded, rules: [rule, rule] }, trustedProxies: ["::1"] },
    ["identity.rules[1].id: must be unique: rules[0] has the same value"],
  ],
  [
    { identity: { ...forwarded, rules: [{ ...rule, id: "spiffe://*" }] }, trustedProxies: ["::1"] },
    [`identity.rules[0].id: ${spiffe}`],
  ],
])("says what of TLS and of workloads does not fit in %j", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

const endpoint = "http://127.0.0.1:4318/v1/traces";
const plainUrl =
  "tracing.endpoint: must be an http or https URL such as http://127.0.0.1:4318/v1/traces, without user and password; use tracing.headers for those";

test.each<[unknown, string[]]>([
  [{ metrics: { port: 9464 } }, []],
  [{ metrics: { port: 8080, host: "127.0.0.2" } }, []],
  [{ port: 0, metrics: { port: 0 } }, []],
  [{ metrics: { port: 8080, host: "::1" }, host: "0.0.0.0", allowUnauthenticated: true }, []],
  ...["0.0.0.0", "::"].flatMap((any): [unknown, string[]][] => [
    [
      { metrics: { port: 8080, host: any } },
      ["metrics.port: must be different from port and runtime.port; if absent, the metrics are served on port"],
    ],
    [
      { metrics: { port: 9464 }, port: 9464, host: any, allowUnauthenticated: true },
      ["metrics.port: must be different from port and runtime.port; if absent, the metrics are served on port"],
    ],
    [
      { port: 1880, host: any, allowUnauthenticated: true },
      ["runtime.port: must be different from port, which the API uses"],
    ],
  ]),
  [
    { metrics: { port: 8080 } },
    ["metrics.port: must be different from port and runtime.port; if absent, the metrics are served on port"],
  ],
  ...["127.0.0.1", "::1"].map((host): [unknown, string[]] => [
    { port: 1880, host },
    ["runtime.port: must be different from port, which the API uses"],
  ]),
  [
    { metrics: { port: 1880 } },
    ["metrics.port: must be different from port and runtime.port; if absent, the metrics are served on port"],
  ],
  [{ nodeRed: { port: 0 }, port: 0 }, []],
  ...[{ port: 8080 }, { port: 1880 }, { port: 9464 }].map((nodeRed): [unknown, string[]] => [
    { nodeRed, metrics: { port: 9464 } },
    ["nodeRed.port: must be different from port, runtime.port and metrics.port"],
  ]),
  [
    { nodeRed: { port: 8081 }, identity: { ...forwarded, rules: [rule] }, trustedProxies: ["::1"] },
    [
      "nodeRed.port: requires adminAuth.users: Node-RED's tools log in with a name and a password. People can also sign in at the editor by adminAuth.issuers with a signIn, if nodeRed.url is set",
    ],
  ],
  [
    { nodeRed: { port: 8081, url: "https://editor.example" } },
    ["nodeRed.url: requires nodeRed.editor and adminAuth.signIn.url, by which people sign in at the editor"],
  ],
  [
    { nodeRed: { editor: true, url: "https://flows.example/" }, adminAuth: { users: [ada], signIn } },
    ["nodeRed.url: must be another origin than adminAuth.signIn.url: pages of the editor run code of modules"],
  ],
  [
    { nodeRed: { editor: true, url: "http://editor.example" }, adminAuth: { users: [ada], signIn } },
    ["nodeRed.url: must be an https URL such as https://flows.example, or an http URL of this machine, without a path"],
  ],
  [
    { adminAuth: { users: [ada], clientIds: ["node-red-admin"] } },
    ["adminAuth.clientIds[0]: must not be a client of Node-RED, which logs in on nodeRed.port only"],
  ],
  [{ tracing: { endpoint, headers: { authorization: "Bearer abc" }, sampleRatio: 0 } }, []],
  [{ tracing: {} }, ["tracing.endpoint: is missing: it must be a URL"]],
  [
    { tracing: { endpont: endpoint } as never },
    ["tracing.endpoint: is missing: it must be a URL", "tracing.endpont: unknown key"],
  ],
  [{ tracing: { endpoint: "127.0.0.1:4318" } }, [plainUrl]],
  [{ tracing: { endpoint: "grpc://127.0.0.1:4317" } }, [plainUrl]],
  [{ tracing: { endpoint: "http://user:hunter2@127.0.0.1:4318" } }, [plainUrl]],
  [{ tracing: { endpoint, sampleRatio: 1.5 } }, ["tracing.sampleRatio: must be a number from 0 to 1"]],
  [
    { tracing: { endpoint, headers: { "no name": "hunter2" } } },
    ["tracing.headers: must be names and values of HTTP headers"],
  ],
  [
    { tracing: { endpoint, headers: { name: "hunter2\r\n" } } },
    ["tracing.headers: must be names and values of HTTP headers"],
  ],
  [{ tracing: { endpoint, headers: { name: 1 } } }, ["tracing.headers.name: must be text"]],
])("says what of metrics and traces does not fit in %j", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

const notAnOrigin =
  'must be "*" or an origin in the form of the Origin header, such as https://app.example, without a path';
const notAName = "must be a host name such as flows.example, without scheme, port and path";

test.each([
  ["https://app.example", []],
  ["http://localhost:5173", []],
  ["http://[::1]:5173", []],
  ["chrome-extension://abcdefghijklmnop", []],
  ["https://app.example/", [notAnOrigin]],
  ["https://app.example:443", [notAnOrigin]],
  ["https://App.example", [notAnOrigin]],
  ["https://*.app.example", [notAnOrigin]],
  ["app.example", [notAnOrigin]],
  ["null", [notAnOrigin]],
  ["", [notAnOrigin]],
])("whether %j is an origin: %j", (origin, expected) => {
  expect(problems({ cors: { origins: [origin] } })).toEqual(expected.map((problem) => `cors.origins[0]: ${problem}`));
});

test("accepts every origin only with authentication or allowUnauthenticated", () => {
  const cors = { origins: ["*"] };
  expect(problems({ cors })).toEqual([
    'cors.origins: would give every web page all permissions with "*", since adminAuth is not set: list the origins, set adminAuth, or set allowUnauthenticated: true',
  ]);
  expect(problems({ cors, adminAuth: { users: [ada] } })).toEqual([]);
  expect(problems({ cors, allowUnauthenticated: true })).toEqual([]);
  expect(problems({ cors: { origins: [] } })).toEqual(["cors.origins: must name at least one origin"]);
});

test.each([
  ["flows.example", []],
  ["flowgate", []],
  ["flows.example:80", [notAName]],
  ["http://flows.example", [notAName]],
  ["*.flows.example", [notAName]],
  ["*", [notAName]],
])("whether %j is a name of the service: %j", (name, expected) => {
  expect(problems({ hosts: [name] })).toEqual(expected.map((problem) => `hosts[0]: ${problem}`));
});

const exposed =
  "host: would give every client on the network all permissions, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true";

test.each([
  ["127.0.0.1", []],
  ["127.1.2.3", []],
  ["::1", []],
  ["::ffff:127.0.0.1", []],
  ["localhost", []],
  ["0.0.0.0", [exposed]],
  ["::", [exposed]],
  ["192.168.0.1", [exposed]],
  ["flowgate.example", [exposed]],
  ["127.0.0.1.example", [exposed]],
])("whether %s may be open to everyone: %j", (host, expected) => {
  expect(problems({ host })).toEqual(expected);
  expect(problems({ host, allowUnauthenticated: true })).toEqual([]);
  expect(problems({ host, adminAuth: { users: [ada] } })).toEqual([]);
  expect(problems({ host, identity: forwarded, trustedProxies: ["10.0.0.1"] })).toEqual([]);
});

test("false turns the journal off, as 0 does", () => {
  expect(parseOptions({ live: { journal: { size: false, age: 0 } } }).live.journal).toEqual({ size: 0, age: 0 });
});

const hook = { url: "https://hooks.example/a?token=x", kinds: ["log"] };

test.each<[object, string[]]>([
  [
    { targets: [hook, { ...hook, url: "http://relay.internal:8080/", kinds: ["deployment", "token"], level: "warn" }] },
    [],
  ],
  [{ targets: [{ ...hook, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }] }, []],
  [
    { targets: [{ ...hook, secret: "too short" }] },
    [
      "webhooks.targets[0].secret: must be whsec_ and the Base64 of 24 to 64 random bytes, as `openssl rand -base64 32` prints them",
    ],
  ],
  [
    { targets: [{ ...hook, kinds: ["debug"] }] },
    [
      "webhooks.targets[0].kinds[0]: must be one of: deployment, runtime_state, node_error, log, module, token, users, proposal, health",
    ],
  ],
  [{ targets: [{ ...hook, kinds: [] }] }, ["webhooks.targets[0].kinds: must name at least one kind"]],
  [
    { targets: [{ ...hook, url: "ftp://hooks.example" }] },
    [
      "webhooks.targets[0].url: must be an http or https URL such as https://hooks.example/flowgate, without user and password",
    ],
  ],
  [{ targets: [hook, hook] }, ["webhooks.targets[1].url: must be unique: targets[0] has the same value"]],
  [
    { network: { allow: ["10.0.0"] } },
    [
      "webhooks.network.allow[0]: must be an address, a subnet or a host name, with or without a port, such as 10.0.0.0/8, 192.0.2.1:443, relay.internal:8443 or *:443",
    ],
  ],
])("webhooks: %j", (webhooks, expected) => {
  expect(problems({ webhooks })).toEqual(expected);
});

test("webhooks need the journal", () => {
  expect(problems({ webhooks: { targets: [hook] }, live: { journal: { size: 0 } } })).toEqual([
    "webhooks.targets: requires the journal, from which events are sent: set live.journal.size and live.journal.age",
  ]);
});

test.each<[string, string[]]>([
  ["http://10.0.0.5:8080", []],
  ["https://a.flows.example/", []],
  [
    "10.0.0.5:8080",
    [`live.address: must be an http or https URL such as http://10.0.0.5:8080, without a path, user and password`],
  ],
  [
    "http://u:p@10.0.0.5",
    [`live.address: must be an http or https URL such as http://10.0.0.5:8080, without a path, user and password`],
  ],
  [
    "http://10.0.0.5/path",
    [`live.address: must be an http or https URL such as http://10.0.0.5:8080, without a path, user and password`],
  ],
])("whether %j is an address of a replica: %j", (address, expected) => {
  expect(problems({ live: { address } })).toEqual(expected);
});

test.each([
  [
    { required: "all" },
    [
      "approvals.required: requires users or workloads, since an author can't approve a proposal: set adminAuth or identity",
    ],
  ],
  [
    { required: ["Invoices"] },
    [
      "approvals.required: requires users or workloads, since an author can't approve a proposal: set adminAuth or identity",
    ],
  ],
  [{ required: "some" }, ["approvals.required: must be all, or a list of labels and ids of tabs"]],
  [{ expiryDays: 0 }, ["approvals.expiryDays: must be a whole number from 1 to 365"]],
])("approvals: %j", (approvals, expected) => {
  expect(problems({ approvals })).toEqual(expected);
});
