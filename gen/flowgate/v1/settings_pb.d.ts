import type { GenEnum, GenFile, GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import type { Message, UnknownEnum } from "@bufbuild/protobuf";
/**
 * Describes the file flowgate/v1/settings.proto.
 */
export declare const file_flowgate_v1_settings: GenFile;
/**
 * @generated from message flowgate.v1.GetSettingsRequest
 */
export type GetSettingsRequest = Message<"flowgate.v1.GetSettingsRequest"> & {};
/**
 * Describes the message flowgate.v1.GetSettingsRequest.
 * Use `create(GetSettingsRequestSchema)` to create a new message.
 */
export declare const GetSettingsRequestSchema: GenMessage<GetSettingsRequest>;
/**
 * @generated from message flowgate.v1.GetSettingsResponse
 */
export type GetSettingsResponse = Message<"flowgate.v1.GetSettingsResponse"> & {
    /**
     * The service's own version.
     *
     * @generated from field: string version = 1;
     */
    version: string;
    /**
     * The values of Service-API-Version that are understood.
     *
     * @generated from field: repeated string api_versions = 2;
     */
    apiVersions: string[];
    /**
     * @generated from field: flowgate.v1.Runtime runtime = 3;
     */
    runtime?: Runtime | undefined;
    /**
     * Who is asking; absent where no one is authenticated.
     *
     * @generated from field: flowgate.v1.User user = 4;
     */
    user?: User | undefined;
};
/**
 * Describes the message flowgate.v1.GetSettingsResponse.
 * Use `create(GetSettingsResponseSchema)` to create a new message.
 */
export declare const GetSettingsResponseSchema: GenMessage<GetSettingsResponse>;
/**
 * The flow runtime.
 *
 * @generated from message flowgate.v1.Runtime
 */
export type Runtime = Message<"flowgate.v1.Runtime"> & {
    /**
     * @generated from field: string name = 1;
     */
    name: string;
    /**
     * @generated from field: string version = 2;
     */
    version: string;
    /**
     * @generated from field: flowgate.v1.RuntimeState state = 3;
     */
    state: RuntimeState;
    /**
     * Where HTTP-in nodes answer; 0 until the runtime has bound it.
     *
     * @generated from field: int32 http_port = 4;
     */
    httpPort: number;
    /**
     * Why the active flows do not run; absent where they do.
     *
     * @generated from field: optional string message = 5;
     */
    message?: string | undefined;
};
/**
 * Describes the message flowgate.v1.Runtime.
 * Use `create(RuntimeSchema)` to create a new message.
 */
export declare const RuntimeSchema: GenMessage<Runtime>;
/**
 * @generated from message flowgate.v1.User
 */
export type User = Message<"flowgate.v1.User"> & {
    /**
     * @generated from field: string username = 1;
     */
    username: string;
    /**
     * @generated from field: repeated string permissions = 2;
     */
    permissions: string[];
};
/**
 * Describes the message flowgate.v1.User.
 * Use `create(UserSchema)` to create a new message.
 */
export declare const UserSchema: GenMessage<User>;
/**
 * @generated from enum flowgate.v1.RuntimeState
 */
export declare const RuntimeState: {
    /**
     * @generated from enum value: RUNTIME_STATE_UNSPECIFIED = 0;
     */
    readonly UNSPECIFIED: 0;
    /**
     * The process or its flows are being started.
     *
     * @generated from enum value: RUNTIME_STATE_STARTING = 1;
     */
    readonly STARTING: 1;
    /**
     * The active flows run.
     *
     * @generated from enum value: RUNTIME_STATE_RUNNING = 2;
     */
    readonly RUNNING: 2;
    /**
     * The runtime said why it can't start the active flows.
     *
     * @generated from enum value: RUNTIME_STATE_FAILED = 3;
     */
    readonly FAILED: 3;
    /**
     * The process ended or hung, and is replaced after a pause.
     *
     * @generated from enum value: RUNTIME_STATE_RESTARTING = 4;
     */
    readonly RESTARTING: 4;
    /**
     * The flows ended the process too often: loaded, not started, until the next deployment.
     *
     * @generated from enum value: RUNTIME_STATE_SAFE = 5;
     */
    readonly SAFE: 5;
    /**
     * @generated from enum value: RUNTIME_STATE_STOPPED = 6;
     */
    readonly STOPPED: 6;
};
/**
 * @generated from enum flowgate.v1.RuntimeState
 */
export type RuntimeState = (typeof RuntimeState)[keyof typeof RuntimeState] | UnknownEnum;
/**
 * Describes the enum flowgate.v1.RuntimeState.
 */
export declare const RuntimeStateSchema: GenEnum<RuntimeState>;
/**
 * The service about itself.
 *
 * @generated from service flowgate.v1.SettingsService
 */
export declare const SettingsService: GenService<{
    /**
     * Says which service this is, how its flow runtime fares, and who is asking.
     *
     * @generated from rpc flowgate.v1.SettingsService.GetSettings
     */
    getSettings: {
        methodKind: "unary";
        input: typeof GetSettingsRequestSchema;
        output: typeof GetSettingsResponseSchema;
    };
}>;
