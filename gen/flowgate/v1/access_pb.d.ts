import type { GenExtension, GenFile, GenMessage } from "@bufbuild/protobuf/codegenv2";
import type { MethodOptions } from "@bufbuild/protobuf/wkt";
import type { Message } from "@bufbuild/protobuf";
/**
 * Describes the file flowgate/v1/access.proto.
 */
export declare const file_flowgate_v1_access: GenFile;
/**
 * @generated from message flowgate.v1.Access
 */
export type Access = Message<"flowgate.v1.Access"> & {
    /**
     * @generated from oneof flowgate.v1.Access.rule
     */
    rule: {
        /**
         * Everyone.
         *
         * @generated from field: bool public = 1;
         */
        value: boolean;
        case: "public";
    } | {
        /**
         * Whoever has a valid token.
         *
         * @generated from field: bool authenticated = 2;
         */
        value: boolean;
        case: "authenticated";
    } | {
        /**
         * Whoever is allowed this, for example "flows.read".
         *
         * @generated from field: string permission = 3;
         */
        value: string;
        case: "permission";
    } | {
        case: undefined;
        value?: undefined;
    };
};
/**
 * Describes the message flowgate.v1.Access.
 * Use `create(AccessSchema)` to create a new message.
 */
export declare const AccessSchema: GenMessage<Access>;
/**
 * Why a protected call was refused (RFC 6750, section 3). The HTTP answer has no body.
 *
 * @generated from message flowgate.v1.Unauthorized
 */
export type Unauthorized = Message<"flowgate.v1.Unauthorized"> & {
    /**
     * @generated from field: string challenge = 1;
     */
    challenge: string;
};
/**
 * Describes the message flowgate.v1.Unauthorized.
 * Use `create(UnauthorizedSchema)` to create a new message.
 */
export declare const UnauthorizedSchema: GenMessage<Unauthorized>;
/**
 * Who may call a method. One that does not say so is refused at start-up.
 *
 * @generated from extension: flowgate.v1.Access access = 51240;
 */
export declare const access: GenExtension<MethodOptions, Access>;
