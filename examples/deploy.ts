// Deploys a flow with the generated client, over gRPC: node examples/deploy.ts [url]
// If the service requires a token, set the environment variable TOKEN.
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { DeploymentType, FlowsService, SettingsService } from "@flowgate/client";

const { TOKEN: token } = process.env;
const authenticate: Interceptor = (next) => (request) => {
  if (token !== undefined) {
    request.header.set("Authorization", `Bearer ${token}`);
  }
  return next(request);
};
const transport = createGrpcTransport({
  baseUrl: process.argv[2] ?? "http://127.0.0.1:8080",
  interceptors: [authenticate],
});
const flows = createClient(FlowsService, transport);
const settings = createClient(SettingsService, transport);

// With `rev` the call fails with ABORTED if another deployment was made in the meantime.
const { rev } = await flows.getFlows({});
const deployed = await flows.setFlows({
  rev,
  deploymentType: DeploymentType.NODES,
  flows: [
    { id: "tab", type: "tab", label: "Greetings" },
    { id: "in", type: "http in", properties: { z: "tab", url: "/hello", method: "get", wires: [["greet"]] } },
    {
      id: "greet",
      type: "function",
      properties: { z: "tab", func: "msg.payload = 'Hello from gRPC'; return msg;", wires: [["out"]] },
    },
    { id: "out", type: "http response", properties: { z: "tab", wires: [] } },
  ],
});
const { runtime } = await settings.getSettings({});

const response = await fetch(`http://127.0.0.1:${runtime?.httpPort}/hello`);
process.stdout.write(`${await response.text()}, revision ${deployed.rev}\n`);
