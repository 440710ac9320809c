import { create, getOption } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type GetSettingsResponse,
  GetSettingsResponseSchema,
  RuntimeState as RuntimeStateMessage,
  type SettingsService,
} from "../../gen/flowgate/v1/settings_pb.ts";
import { method as methodExtension } from "@flowgate/transcoding/gen/transcoding/v1/annotations_pb.js";
import { type Principal, principalKey } from "../auth/principal.ts";
import type { Runtime, RuntimeState, RuntimeStatus } from "../runtime/runtime.ts";

const states: Readonly<Record<RuntimeState, RuntimeStateMessage>> = {
  starting: RuntimeStateMessage.STARTING,
  running: RuntimeStateMessage.RUNNING,
  failed: RuntimeStateMessage.FAILED,
  restarting: RuntimeStateMessage.RESTARTING,
  safe: RuntimeStateMessage.SAFE,
  stopped: RuntimeStateMessage.STOPPED,
};

/** The API versions that the .proto file declares. */
const apiVersions =
  getOption(FlowsService.method.setFlows, methodExtension).variants?.variants.map(({ value }) => value) ?? [];

/** `version` is the version of Flowgate. */
export function settingsService(
  version: string,
  runtime: Pick<Runtime, "status">,
): ServiceImpl<typeof SettingsService> {
  let current: RuntimeStatus | undefined;
  /** Frozen, so that each is encoded once. */
  let responses = new WeakMap<Principal, GetSettingsResponse>();

  return {
    getSettings(_request, { values }) {
      const principal = values.get(principalKey);
      const status = runtime.status();
      if (current === undefined || !isSame(status, current)) {
        current = status;
        responses = new WeakMap();
      }
      const known = responses.get(principal);
      if (known !== undefined) {
        return known;
      }
      const response = Object.freeze(toResponse(version, status, principal));
      responses.set(principal, response);
      return response;
    },
  };
}

/** Name and version do not change. */
function isSame(one: RuntimeStatus, other: RuntimeStatus): boolean {
  return one.state === other.state && one.httpPort === other.httpPort && one.message === other.message;
}

function toResponse(
  version: string,
  { state, message, ...status }: RuntimeStatus,
  { username, permissions }: Principal,
): GetSettingsResponse {
  return create(GetSettingsResponseSchema, {
    version,
    apiVersions,
    runtime: { ...status, state: states[state], ...(message === undefined ? {} : { message }) },
    ...(username === undefined ? {} : { user: { username, permissions: [...permissions] } }),
  });
}
