import { form, type Reply, type Sending, send } from "./rest.ts";
import { type Service, type ServiceOptions, startService } from "./service.ts";
import { tokenParameters } from "./users.ts";

/** A service with the listener of Node-RED's tools. */
export type ToolService = Service & {
  readonly toolsUrl: string;
  /** Sends a request to that listener. */
  sendTool(method: string, path: string, sending?: Sending): Promise<Reply>;
};

export async function startToolService(
  options: ServiceOptions & { readonly config?: object } = {},
): Promise<ToolService> {
  const service = await startService({ ...options, config: { nodeRed: { port: 0 }, ...options.config } });
  const [, toolsUrl = ""] = /^Node-RED's admin API, for its tools: (\S+)$/m.exec(service.log()) ?? [];
  return Object.assign(service, {
    toolsUrl,
    sendTool: (method: string, path: string, sending?: Sending) =>
      send(toolsUrl, method, path, { ...(options.tls && { tls: options.tls }), ...sending }),
  });
}

/** Logs in as Node-RED's editor does, or with other parameters. */
export async function loginTool(
  service: Pick<ToolService, "sendTool">,
  username: string,
  changes: object = {},
): Promise<string> {
  const parameters = { ...tokenParameters({ username }), client_id: "node-red-editor", scope: "", ...changes };
  const body = new URLSearchParams(parameters).toString();
  const reply = await service.sendTool("POST", "/auth/token?_=1700000000000", { headers: form, body });
  if (reply.status !== 200) {
    throw new Error(`no token for ${username}: ${reply.status} ${reply.body}`);
  }
  return (reply.json() as { access_token: string }).access_token;
}
