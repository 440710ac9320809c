import * as z from "zod";
import { toolClientIds } from "../auth/audiences.ts";
import { isConfidentialUrl } from "@flowgate/base/addresses";
import { isSpiffePattern } from "../auth/workload.ts";
import type { Permissions } from "./permissions.ts";
import { oneOf, origin, passwordHash, rejectDuplicates, text, wholeNumber } from "./values.ts";

const user = (permissions: Permissions) =>
  z.strictObject({
    username: text.describe("Name to log in with. Must be unique."),
    password: passwordHash.describe(
      "The argon2id or bcrypt hash of the password, never the password itself. `flowgate hash-password` creates one.",
    ),
    permissions: permissions.describe(
      '`"*"` permits every operation, `"read"` every `*.read` permission but `debug.read` and `logs.read`, and a name such as `flows.write` only itself; a role permits what its set has. A list combines several.',
    ),
  });

const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"] as const;

const claimRule = (permissions: Permissions) =>
  z.strictObject({
    claims: z
      .record(z.string(), z.string("must be text"), "must be claims and their values")
      .refine((claims) => Object.keys(claims).length > 0, "must name at least one claim")
      .readonly()
      .describe(
        "Claims, and the value that each must have. A claim that is a list must contain the value; numbers, `true` and `false` are compared as text.",
      ),
    permissions: permissions.describe(
      "In the same form as the permissions of a user. A caller has the permissions of all rules that match.",
    ),
  });

/** The names of parameters that requests of the code and device flows set themselves. */
const ownParameters =
  /^(client_id|client_secret|code|code_challenge|code_challenge_method|grant_type|nonce|redirect_uri|response_mode|response_type|scope|state)$/;

const client = z
  .strictObject({
    clientId: text.describe("Id of the client of this service at the issuer."),
    clientSecret: text
      .optional()
      .describe("Secret of the client. Absent, and without `clientSecretFile`: the client is a public one."),
    clientSecretFile: text
      .optional()
      .describe(
        "The same as a file, without the line break at its end. It is read at the start, and when the configuration changes.",
      ),
    deviceClientId: text
      .optional()
      .describe(
        "Id of a public client with the device flow, for `flowgate login`. Absent: the command line can't log in at this issuer.",
      ),
    scopes: z
      .array(text.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "must be a scope, without spaces"), "must be a list of scopes")
      .refine((scopes) => scopes.includes("openid"), 'must contain "openid"')
      .readonly()
      .default(["openid", "profile"])
      .describe(
        "Requested scopes. Many providers give a refresh token for `offline_access` only, and groups for a scope of their own.",
      ),
    parameters: z
      .record(z.string(), z.string("must be text"), "must be names and their values")
      .refine(
        (parameters) => !Object.keys(parameters).some((name) => ownParameters.test(name)),
        "must not contain a parameter that the sign-in sets itself, such as scope or redirect_uri",
      )
      .readonly()
      .default({})
      .describe("Further parameters of requests for authorization, such as `resource` or `audience`."),
  })
  .superRefine(({ clientSecret, clientSecretFile }, context) => {
    if (clientSecret !== undefined && clientSecretFile !== undefined) {
      context.addIssue({
        code: "custom",
        path: ["clientSecretFile"],
        message: "must not be set together with clientSecret",
      });
    }
  });

const issuer = (permissions: Permissions) =>
  z
    .strictObject({
      name: text
        // The names of workloads begin with spiffe and a colon.
        .regex(
          /^(?!spiffe$)[a-z][a-z\d-]*$/,
          "must be lower-case letters, digits and hyphens, such as gitlab, other than spiffe",
        )
        .describe("Name of the issuer. The user names of its callers begin with it and a colon. Must be unique."),
      issuer: text.describe("The claim `iss` of its tokens. Must be unique."),
      audience: text.describe(
        "Required value of the claim `aud` of a token: a name of this service that no other service has.",
      ),
      jwksUrl: z
        .string("must be a URL")
        .refine(
          isConfidentialUrl,
          "must be an https URL, or an http URL of this machine such as http://127.0.0.1:8443/keys, without user and password",
        )
        .optional()
        .describe("URL of the public keys, as a JSON Web Key Set. Required unless `jwksFile` is set."),
      jwksFile: text.optional().describe("The same as a file. Flows must not be able to write it."),
      algorithms: z
        .array(oneOf(algorithms), "must be a list of algorithms")
        .min(1, "must name at least one algorithm")
        .readonly()
        .default(["RS256"])
        .describe(`Accepted signature algorithms: ${algorithms.map((name) => `\`${name}\``).join(", ")}.`),
      usernameClaim: text.default("sub").describe("The claim that has the name of the caller."),
      clockSkewSeconds: wholeNumber(0, 600)
        .default(30)
        .describe("How far the clocks of the issuer and of this service may differ."),
      rules: z
        .array(claimRule(permissions), "must be a list of rules")
        .min(1, "must have at least one rule")
        .readonly()
        .describe("Permissions by claims. A token that no rule matches is rejected."),
      signIn: client
        .optional()
        .describe(
          "Lets people sign in at this issuer, by OpenID Connect. Requires `adminAuth.signIn.url`. Absent: only their tokens are accepted.",
        ),
    })
    .superRefine(({ issuer, jwksUrl, jwksFile, signIn }, context) => {
      if ((jwksUrl === undefined) === (jwksFile === undefined)) {
        context.addIssue({ code: "custom", path: ["jwksUrl"], message: "set either this or jwksFile, but not both" });
      }
      if (signIn !== undefined && !isConfidentialUrl(issuer)) {
        context.addIssue({
          code: "custom",
          path: ["issuer"],
          message: "must be an https URL, or an http URL of this machine, so that people can sign in there",
        });
      }
    });

export const adminAuth = (permissions: Permissions) =>
  z
    .strictObject({
      type: z
        .literal("credentials", 'must be "credentials"')
        .default("credentials")
        .describe("How users authenticate: by name and password. There is no other value."),
      users: z
        .array(user(permissions), "must be a list of users")
        .superRefine((users, context) => rejectDuplicates(users, "username", "users", context))
        .readonly()
        .default([])
        .describe("The users that can log in. At least one, unless `issuers` is set."),
      issuers: z
        .array(issuer(permissions), "must be a list of issuers")
        .superRefine((issuers, context) => {
          rejectDuplicates(issuers, "name", "issuers", context);
          rejectDuplicates(issuers, "issuer", "issuers", context);
        })
        .readonly()
        .default([])
        .describe("Issuers of JWTs that callers can authenticate with, besides the tokens of this service."),
      signIn: z
        .strictObject({
          url: origin
            .optional()
            .describe(
              "URL at which browsers reach this service. Absent: the URL of each request, which must be `https`, or `http` on this machine.",
            ),
          lifetimeSeconds: wholeNumber(60, 31_536_000)
            .default(sessionSeconds)
            .describe("Longest lifetime of a session. The default is 12 hours."),
        })
        .optional()
        .describe(
          "Sessions of browsers: lets users, and people at issuers with a `signIn`, sign in at `/sign-in`. Absent: with its defaults if there are `users` and pages (`console` or `docs`), otherwise none.",
        ),
      default: z
        .strictObject({ permissions: permissions.describe("In the same form as the permissions of a user.") })
        .optional()
        .describe("Permissions of requests without a token. Absent: none."),
      clientIds: z
        .array(
          text.refine(
            (id) => !toolClientIds.includes(id),
            "must not be a client of Node-RED, which logs in on nodeRed.port only",
          ),
          "must be a list of client ids",
        )
        .min(1, "must name at least one client id")
        .readonly()
        .default(["service-admin", "service-editor"])
        .describe("Accepted values of `client_id` in a token request."),
      tokenLifetimeSeconds: wholeNumber(1, 2_147_483_647)
        .default(604_800)
        .describe("Lifetime of a token. The default is one week."),
      maxTokensPerUser: wholeNumber(1, 1_000_000)
        .default(100)
        .describe(
          "Maximum number of named tokens of a user, without expired ones. A further one is rejected with 429.",
        ),
      maxTokens: wholeNumber(1, 1_000_000)
        .default(1000)
        .describe("Maximum number of named tokens of all users, handled like `maxTokensPerUser`."),
    })
    .superRefine(({ users, issuers, signIn }, context) => {
      const reject = (path: (string | number)[], message: string): void =>
        context.addIssue({ code: "custom", path, message });
      if (users.length + issuers.length === 0) {
        reject(["users"], "must name at least one user, unless issuers is set");
      }
      for (const [at, issuer] of issuers.entries()) {
        if (issuer.signIn !== undefined && signIn?.url === undefined) {
          reject(["issuers", at, "signIn"], "requires adminAuth.signIn.url, the URL of this service");
        }
      }
      for (const [at, { username }] of users.entries()) {
        if (issuers.some(({ name }) => username.startsWith(`${name}:`))) {
          reject(["users", at, "username"], "must not begin with the name of an issuer and a colon");
        }
      }
    });

/** The default lifetime of the session of a browser. */
export const sessionSeconds = 43_200;

const identityRule = (permissions: Permissions) =>
  z.strictObject({
    id: z
      .string("must be a SPIFFE ID")
      .refine(
        isSpiffePattern,
        "must be a SPIFFE ID with a path, such as spiffe://example.org/ns/prod/sa/deployer, or end in /*",
      )
      .describe("A SPIFFE ID, or a prefix followed by `/*`. The most specific matching rule applies."),
    permissions: permissions.describe("In the same form as the permissions of a user."),
  });

export const identity = (permissions: Permissions) =>
  z.strictObject({
    source: oneOf(["certificate", "forwarded"]).describe(
      "Where the SPIFFE ID is read from: `certificate` is the client certificate of the connection, `forwarded` the X-Forwarded-Client-Cert header set by `trustedProxies`.",
    ),
    rules: z
      .array(identityRule(permissions), "must be a list of rules")
      .min(1, "must have at least one rule")
      .superRefine((rules, context) => rejectDuplicates(rules, "id", "rules", context))
      .readonly()
      .describe("Permissions by SPIFFE ID."),
  });
