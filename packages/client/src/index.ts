// The services, nodes as JSON, and an interceptor that retries calls, to be used with a Connect transport
export * from "../gen/flowgate/v1/audit_pb.ts";
export * from "../gen/flowgate/v1/context_pb.ts";
export * from "../gen/flowgate/v1/events_pb.ts";
export * from "../gen/flowgate/v1/diff_pb.ts";
export * from "../gen/flowgate/v1/auth_pb.ts";
export * from "../gen/flowgate/v1/flows_pb.ts";
export * from "../gen/flowgate/v1/logs_pb.ts";
export * from "../gen/flowgate/v1/modules_pb.ts";
export * from "../gen/flowgate/v1/proposals_pb.ts";
export * from "../gen/flowgate/v1/revisions_pb.ts";
export * from "../gen/flowgate/v1/runtime_pb.ts";
export * from "../gen/flowgate/v1/settings_pb.ts";
export * from "../gen/flowgate/v1/tokens_pb.ts";
export * from "../gen/google/rpc/error_details_pb.ts";
export { NodeJsonError, nodeCredentialsFromJson, nodeFromJson, nodeToJson } from "./node-json.ts";
export { retryInterceptor, type RetryOptions } from "./retry.ts";
