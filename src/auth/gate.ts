import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import { type AccessRule, type AccessRules, allows, allowsOnTabs } from "./permissions.ts";
import type { AuditRecorder } from "./audit-recorder.ts";
import type { Authenticator } from "./authenticator.ts";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import { type Principal, originOf, peerKey, principalKey } from "./caller.ts";
import { insufficientScope, invalidToken, noIdentity, noToken } from "./errors.ts";
import { TabAccess, tabAccessKey } from "./tab-access.ts";

/**
 * Creates a gate, which authenticates and authorizes a call before its body is read, and sets `principalKey`. `foreign` has the
 * rules of third-party services, whose .proto files can't declare them. `audit` records which authenticated callers lacked a
 * permission. `findReplica` authenticates calls between replicas.
 */
export function createGate(
  authenticator: CallerAuthenticator,
  declared: AccessRules,
  audit: AuditRecorder,
  foreign: ReadonlyMap<DescService, AccessRule> = new Map(),
  findReplica: FindReplica = () => undefined,
): (context: HandlerContext) => void | Promise<void> {
  const rules = new Map(declared);
  for (const [{ methods }, rule] of foreign) {
    for (const method of methods) {
      rules.set(method, rule);
    }
  }

  return (context) => {
    const rule = rules.get(context.method);
    if (rule === undefined) {
      throw new TypeError(
        `${context.service.typeName}.${context.method.name} is served, but the gate has no access rule for it`,
      );
    }
    if (rule.kind === "replica") {
      return admitReplica(context, findReplica);
    }
    return authorize(authenticator, context, rule, changes(context.method), (principal, permission) =>
      audit.record({
        kind: "permission_denied",
        origin: originOf(context, principal),
        subject: `${context.service.typeName}.${context.method.name}`,
        detail: permission,
      }),
    );
  };
}

/** Returns the id of the replica that has sent this Authorization header; undefined: none has. */
export type FindReplica = (authorization: string | null) => string | undefined;

function admitReplica({ requestHeader, values }: GatedRequest, findReplica: FindReplica): void {
  const peer = values.get(peerKey);
  const id = findReplica(peer.authorization ?? requestHeader.get("authorization"));
  if (id === undefined) {
    throw peer.overloaded?.() ?? invalidToken("Only replicas of this service may call this.");
  }
  peer.authenticated?.();
  values.set(principalKey, { username: `replica ${id}`, permissions: [] });
}

type GatedRequest = Pick<HandlerContext, "url" | "requestHeader" | "values">;

export type PermissionCheck = (request: GatedRequest) => void | Promise<void>;

/** Creates the check of a permission for a REST endpoint that is not an RPC: it rejects callers without the permission. */
export function createPermissionCheck(
  authenticator: CallerAuthenticator,
  permission: string,
  audit: AuditRecorder,
): PermissionCheck {
  return createAccessCheck(authenticator, { kind: "permission", permission }, audit);
}

/** The same for any rule. */
export function createAccessCheck(
  authenticator: CallerAuthenticator,
  rule: Exclude<AccessRule, { readonly kind: "replica" }>,
  audit: AuditRecorder,
): PermissionCheck {
  return (request) =>
    authorize(authenticator, request, rule, false, (principal, permission) =>
      audit.record({
        kind: "permission_denied",
        origin: originOf({ values: request.values, protocolName: "http" }, principal),
        detail: permission,
      }),
    );
}

/** The authenticator of the API or of another listener. */
export type CallerAuthenticator = Pick<Authenticator, "required" | "acceptsTokens" | "authenticate">;

function changes({ idempotency }: DescMethod): boolean {
  return idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
}

function authorize(
  authenticator: CallerAuthenticator,
  request: GatedRequest,
  rule: Exclude<AccessRule, { readonly kind: "replica" }>,
  isChange: boolean,
  onDenied: (principal: Principal, detail: string) => void,
): void | Promise<void> {
  if (rule.kind === "public") {
    return undefined;
  }
  const peer = request.values.get(peerKey);
  if (authenticator.required && hasTokenInQuery(peer.target ?? request.url)) {
    throw invalidToken(
      authenticator.acceptsTokens
        ? "An access token must be in the Authorization header, not in the URL."
        : "This service issues no access tokens: remove access_token from the URL.",
    );
  }
  // The peer's copy of Authorization is preferred: creating Headers would cost as much as the rest of the gate.
  const { authorization = request.requestHeader.get("authorization"), workload, overloaded } = peer;
  const session = authorization === null ? peer.session : undefined;
  session?.assertOwnPage(isChange);
  const unknownCaller = authenticator.acceptsTokens ? noToken : noIdentity;
  const admit = (principal: Principal): void => {
    if (principal.username !== undefined) {
      peer.authenticated?.();
    } else if (overloaded !== undefined) {
      throw overloaded();
    }
    if (rule.kind === "authenticated" && authenticator.required && principal.username === undefined) {
      throw unknownCaller();
    }
    if (rule.kind === "permission" && !allows(principal.permissions, rule.permission)) {
      if (!allowsOnTabs(principal.permissions, rule.permission)) {
        if (principal.username === undefined) {
          throw unknownCaller();
        }
        onDenied(principal, rule.permission);
        throw insufficientScope(rule.permission, authorization !== null || session !== undefined);
      }
      const access = new TabAccess(rule.permission, principal.permissions, (detail) => onDenied(principal, detail));
      request.values.set(tabAccessKey, access);
    }
    request.values.set(principalKey, principal);
  };
  const principal =
    overloaded === undefined
      ? authenticator.authenticate(authorization, workload, "api", session?.value)
      : authenticateUnderLoad(
          () => authenticator.authenticate(authorization, workload, "api", session?.value),
          overloaded,
        );
  return principal instanceof Promise ? principal.then(admit) : admit(principal);
}

/** A call without a valid identity gets `overloaded`, not the error of its token or certificate. */
async function authenticateUnderLoad(
  authenticate: () => Principal | Promise<Principal>,
  overloaded: () => Error,
): Promise<Principal> {
  try {
    return await authenticate();
  } catch (error) {
    throw error instanceof FlowgateError && unidentified.has(error.reason) ? overloaded() : error;
  }
}

const unidentified: ReadonlySet<Reason> = new Set(["invalid_token", "invalid_identity"]);

/** RFC 6750, section 2.3, allows tokens in the query but advises against them, since URLs are logged. */
function hasTokenInQuery(url: string): boolean {
  const query = url.indexOf("?");
  return query !== -1 && new URLSearchParams(url.slice(query)).has("access_token");
}
