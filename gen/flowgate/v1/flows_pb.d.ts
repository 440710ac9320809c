import type { GenEnum, GenFile, GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import type { JsonObject, Message, UnknownEnum } from "@bufbuild/protobuf";
/**
 * Describes the file flowgate/v1/flows.proto.
 */
export declare const file_flowgate_v1_flows: GenFile;
/**
 * @generated from message flowgate.v1.GetFlowsRequest
 */
export type GetFlowsRequest = Message<"flowgate.v1.GetFlowsRequest"> & {};
/**
 * Describes the message flowgate.v1.GetFlowsRequest.
 * Use `create(GetFlowsRequestSchema)` to create a new message.
 */
export declare const GetFlowsRequestSchema: GenMessage<GetFlowsRequest>;
/**
 * @generated from message flowgate.v1.GetFlowsResponse
 */
export type GetFlowsResponse = Message<"flowgate.v1.GetFlowsResponse"> & {
    /**
     * @generated from field: repeated flowgate.v1.Node flows = 1;
     */
    flows: Node[];
    /**
     * The revision of the active flows. Opaque.
     *
     * @generated from field: string rev = 2;
     */
    rev: string;
};
/**
 * Describes the message flowgate.v1.GetFlowsResponse.
 * Use `create(GetFlowsResponseSchema)` to create a new message.
 */
export declare const GetFlowsResponseSchema: GenMessage<GetFlowsResponse>;
/**
 * @generated from message flowgate.v1.SetFlowsRequest
 */
export type SetFlowsRequest = Message<"flowgate.v1.SetFlowsRequest"> & {
    /**
     * The whole configuration.
     *
     * @generated from field: repeated flowgate.v1.Node flows = 1;
     */
    flows: Node[];
    /**
     * The revision that this deployment replaces: another active one fails it (ABORTED, HTTP 409).
     * Absent: the deployment is forced.
     *
     * @generated from field: optional string rev = 2;
     */
    rev?: string | undefined;
    /**
     * Credentials beside the nodes; those inside `flows` are merged into what a node has.
     *
     * @generated from field: flowgate.v1.Credentials credentials = 3;
     */
    credentials?: Credentials | undefined;
    /**
     * How much of the running configuration stops and starts; unspecified is full.
     *
     * @generated from field: flowgate.v1.DeploymentType deployment_type = 4;
     */
    deploymentType: DeploymentType;
};
/**
 * Describes the message flowgate.v1.SetFlowsRequest.
 * Use `create(SetFlowsRequestSchema)` to create a new message.
 */
export declare const SetFlowsRequestSchema: GenMessage<SetFlowsRequest>;
/**
 * @generated from message flowgate.v1.SetFlowsResponse
 */
export type SetFlowsResponse = Message<"flowgate.v1.SetFlowsResponse"> & {
    /**
     * The new revision of the active flows.
     *
     * @generated from field: string rev = 1;
     */
    rev: string;
};
/**
 * Describes the message flowgate.v1.SetFlowsResponse.
 * Use `create(SetFlowsResponseSchema)` to create a new message.
 */
export declare const SetFlowsResponseSchema: GenMessage<SetFlowsResponse>;
/**
 * An element of a flow configuration: a tab, a node, a group, a subflow, a configuration node.
 *
 * @generated from message flowgate.v1.Node
 */
export type Node = Message<"flowgate.v1.Node"> & {
    /**
     * Unique within the configuration.
     *
     * @generated from field: string id = 1;
     */
    id: string;
    /**
     * The kind of node; "tab" is a flow's tab.
     *
     * @generated from field: string type = 2;
     */
    type: string;
    /**
     * @generated from field: optional string label = 3;
     */
    label?: string | undefined;
    /**
     * Merged into what the node has; an empty string removes one. Never returned.
     *
     * @generated from field: flowgate.v1.NodeCredentials credentials = 4;
     */
    credentials?: NodeCredentials | undefined;
    /**
     * All other properties, as the node's kind defines them. No key may be one of the names above.
     *
     * @generated from field: google.protobuf.Struct properties = 5;
     */
    properties?: JsonObject | undefined;
};
/**
 * Describes the message flowgate.v1.Node.
 * Use `create(NodeSchema)` to create a new message.
 */
export declare const NodeSchema: GenMessage<Node>;
/**
 * A node's credentials by name, such as "user" and "password".
 *
 * @generated from message flowgate.v1.NodeCredentials
 */
export type NodeCredentials = Message<"flowgate.v1.NodeCredentials"> & {
    /**
     * @generated from field: map<string, string> values = 1;
     */
    values: {
        [key: string]: string;
    };
};
/**
 * Describes the message flowgate.v1.NodeCredentials.
 * Use `create(NodeCredentialsSchema)` to create a new message.
 */
export declare const NodeCredentialsSchema: GenMessage<NodeCredentials>;
/**
 * Credentials beside the flows: either form, not both.
 *
 * @generated from message flowgate.v1.Credentials
 */
export type Credentials = Message<"flowgate.v1.Credentials"> & {
    /**
     * By node id: the whole set of each node that is named.
     *
     * @generated from field: map<string, flowgate.v1.NodeCredentials> nodes = 1;
     */
    nodes: {
        [key: string]: NodeCredentials;
    };
    /**
     * All credentials of the configuration, encrypted with the configured secret.
     *
     * @generated from field: optional string encrypted = 2 [json_name = "$"];
     */
    encrypted?: string | undefined;
};
/**
 * Describes the message flowgate.v1.Credentials.
 * Use `create(CredentialsSchema)` to create a new message.
 */
export declare const CredentialsSchema: GenMessage<Credentials>;
/**
 * @generated from enum flowgate.v1.DeploymentType
 */
export declare const DeploymentType: {
    /**
     * @generated from enum value: DEPLOYMENT_TYPE_UNSPECIFIED = 0;
     */
    readonly UNSPECIFIED: 0;
    /**
     * Stops all existing nodes before the new configuration starts.
     *
     * @generated from enum value: DEPLOYMENT_TYPE_FULL = 1;
     */
    readonly FULL: 1;
    /**
     * Stops only the nodes that were modified.
     *
     * @generated from enum value: DEPLOYMENT_TYPE_NODES = 2;
     */
    readonly NODES: 2;
    /**
     * Stops only the flows that contain modified nodes.
     *
     * @generated from enum value: DEPLOYMENT_TYPE_FLOWS = 3;
     */
    readonly FLOWS: 3;
    /**
     * Reads the flows from storage again and restarts all nodes; what the request holds is ignored.
     *
     * @generated from enum value: DEPLOYMENT_TYPE_RELOAD = 4;
     */
    readonly RELOAD: 4;
};
/**
 * @generated from enum flowgate.v1.DeploymentType
 */
export type DeploymentType = (typeof DeploymentType)[keyof typeof DeploymentType] | UnknownEnum;
/**
 * Describes the enum flowgate.v1.DeploymentType.
 */
export declare const DeploymentTypeSchema: GenEnum<DeploymentType>;
/**
 * The active flow configuration.
 *
 * @generated from service flowgate.v1.FlowsService
 */
export declare const FlowsService: GenService<{
    /**
     * Returns the active flows and their revision; never credentials.
     *
     * @generated from rpc flowgate.v1.FlowsService.GetFlows
     */
    getFlows: {
        methodKind: "unary";
        input: typeof GetFlowsRequestSchema;
        output: typeof GetFlowsResponseSchema;
    };
    /**
     * Sets the active flow configuration (a deployment).
     *
     * @generated from rpc flowgate.v1.FlowsService.SetFlows
     */
    setFlows: {
        methodKind: "unary";
        input: typeof SetFlowsRequestSchema;
        output: typeof SetFlowsResponseSchema;
    };
}>;
