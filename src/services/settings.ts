import { type MessageInitShape, create, getOption } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type GetSettingsResponse,
  GetSettingsResponseSchema,
  IsolationLevel,
  type IsolationSchema,
  type ReplicaSchema,
  RuntimeMode,
  type RuntimeSchema,
  RuntimeState as RuntimeStateMessage,
  type SettingsService,
} from "../../gen/flowgate/v1/settings_pb.ts";
import { method as methodExtension } from "@flowgate/gateway/gen/flowgate/gateway/v1/annotations_pb.js";
import type { Authenticator } from "../auth/authenticator.ts";
import { type Principal, principalKey } from "../auth/caller.ts";
import type { Roles } from "../auth/permissions.ts";
import { enumValue } from "@flowgate/base/enums";
import { outcomes } from "../deployments/revision-message.ts";
import type { Boundary, Runtime, RuntimeState, RuntimeStatus } from "@flowgate/runtime";
import type { Cluster, Replica } from "../store/cluster.ts";

/** The API versions that the .proto file declares. */
const apiVersions =
  getOption(FlowsService.method.setFlows, methodExtension).variants?.variants.map(({ value }) => value) ?? [];

type SettingsOptions = {
  readonly version: string;
  readonly runtime: Pick<Runtime, "status">;
  readonly authenticator: Pick<Authenticator, "roles">;
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
};

export function settingsService({
  version,
  runtime,
  authenticator,
  cluster,
}: SettingsOptions): ServiceImpl<typeof SettingsService> {
  let current: RuntimeStatus | undefined;
  let currentRoles: Roles | undefined;
  /** Frozen, so that each is encoded once. */
  let responses = new WeakMap<Principal, GetSettingsResponse>();

  return {
    getSettings(_request, { values }) {
      const principal = values.get(principalKey);
      const status = runtime.status();
      const { roles } = authenticator;
      if (cluster !== undefined) {
        return toResponse(version, status, principal, roles, cluster.replicas());
      }
      if (current === undefined || !isSame(status, current) || roles !== currentRoles) {
        current = status;
        currentRoles = roles;
        responses = new WeakMap();
      }
      const known = responses.get(principal);
      if (known !== undefined) {
        return known;
      }
      const response = Object.freeze(toResponse(version, status, principal, roles, []));
      responses.set(principal, response);
      return response;
    },
  };
}

/** The others do not change. */
function isSame(one: RuntimeStatus, other: RuntimeStatus): boolean {
  return one.state === other.state && one.httpPort === other.httpPort && one.message === other.message;
}

export function toRuntime({
  name,
  version,
  state,
  httpPort,
  message,
  boundary,
}: RuntimeStatus): MessageInitShape<typeof RuntimeSchema> {
  return {
    name,
    version,
    httpPort,
    state: enumValue(RuntimeStateMessage, state),
    ...(message !== undefined && { message }),
    ...(boundary !== undefined && { isolation: toIsolation(boundary) }),
  };
}

function toResponse(
  version: string,
  status: RuntimeStatus,
  { username, permissions }: Principal,
  roles: Roles | undefined,
  replicas: readonly Replica[],
): GetSettingsResponse {
  return create(GetSettingsResponseSchema, {
    version,
    apiVersions,
    runtime: toRuntime(status),
    ...(username === undefined ? {} : { user: { username, permissions: [...permissions] } }),
    replicas: replicas
      .toSorted((one, other) => one.name.localeCompare(other.name))
      .map((replica) => toReplica(replica)),
    roles: Array.from(roles ?? [], ([name, names]) => ({ name, permissions: [...names] })),
  });
}

function toIsolation({ level, user, message }: Boundary): MessageInitShape<typeof IsolationSchema> {
  return {
    level: enumValue(IsolationLevel, level),
    ...(user !== undefined && { user }),
    ...(message !== undefined && { message }),
  };
}

function toReplica(replica: Replica): MessageInitShape<typeof ReplicaSchema> {
  const { name, version, mode, state, run, isSelf, seenMsAgo } = replica;
  return {
    name,
    version,
    mode: enumValue(RuntimeMode, mode),
    // Another version can have other states.
    state: enumValue(RuntimeStateMessage, state as RuntimeState) ?? RuntimeStateMessage.UNSPECIFIED,
    ...(run !== undefined && { rev: run.rev, outcome: outcomes[run.outcome], message: run.message ?? "" }),
    self: isSelf,
    lastSeenTime: timestampFromMs(Date.now() - seenMsAgo),
  };
}
