import { getOption } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RuntimeState as RuntimeStateMessage, type SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { method as methodExtension } from "@flowgate/transcoding/gen/transcoding/v1/annotations_pb.js";
import { principalKey } from "../auth/principal.ts";
import type { Runtime, RuntimeState } from "../runtime/runtime.ts";

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
export function settingsService(version: string, runtime: Runtime): ServiceImpl<typeof SettingsService> {
  return {
    getSettings(_request, { values }) {
      const { username, permissions } = values.get(principalKey);
      const { state, message, ...status } = runtime.status();
      return {
        version,
        apiVersions,
        runtime: { ...status, state: states[state], ...(message === undefined ? {} : { message }) },
        ...(username === undefined ? {} : { user: { username, permissions: [...permissions] } }),
      };
    },
  };
}
