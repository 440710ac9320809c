import type { GenEnum, GenFile, GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import type { Message, UnknownEnum } from "@bufbuild/protobuf";
/**
 * Describes the file flowgate/v1/auth.proto.
 */
export declare const file_flowgate_v1_auth: GenFile;
/**
 * @generated from message flowgate.v1.GetLoginRequest
 */
export type GetLoginRequest = Message<"flowgate.v1.GetLoginRequest"> & {};
/**
 * Describes the message flowgate.v1.GetLoginRequest.
 * Use `create(GetLoginRequestSchema)` to create a new message.
 */
export declare const GetLoginRequestSchema: GenMessage<GetLoginRequest>;
/**
 * @generated from message flowgate.v1.GetLoginResponse
 */
export type GetLoginResponse = Message<"flowgate.v1.GetLoginResponse"> & {
    /**
     * "credentials", or empty where no authentication is needed.
     *
     * @generated from field: string type = 1;
     */
    type: string;
    /**
     * The inputs that a client must collect.
     *
     * @generated from field: repeated flowgate.v1.Prompt prompts = 2;
     */
    prompts: Prompt[];
};
/**
 * Describes the message flowgate.v1.GetLoginResponse.
 * Use `create(GetLoginResponseSchema)` to create a new message.
 */
export declare const GetLoginResponseSchema: GenMessage<GetLoginResponse>;
/**
 * @generated from message flowgate.v1.Prompt
 */
export type Prompt = Message<"flowgate.v1.Prompt"> & {
    /**
     * The parameter of IssueToken that it fills: "username", "password".
     *
     * @generated from field: string id = 1;
     */
    id: string;
    /**
     * How to ask for it: "text" or "password".
     *
     * @generated from field: string type = 2;
     */
    type: string;
    /**
     * For people.
     *
     * @generated from field: string label = 3;
     */
    label: string;
};
/**
 * Describes the message flowgate.v1.Prompt.
 * Use `create(PromptSchema)` to create a new message.
 */
export declare const PromptSchema: GenMessage<Prompt>;
/**
 * @generated from message flowgate.v1.IssueTokenRequest
 */
export type IssueTokenRequest = Message<"flowgate.v1.IssueTokenRequest"> & {
    /**
     * "service-admin" or "service-editor", or what the configuration allows instead.
     *
     * @generated from field: string client_id = 1 [json_name = "client_id"];
     */
    clientId: string;
    /**
     * "password".
     *
     * @generated from field: string grant_type = 2 [json_name = "grant_type"];
     */
    grantType: string;
    /**
     * Space-separated permissions: "*", "read", or one by name, such as "flows.write".
     *
     * @generated from field: string scope = 3;
     */
    scope: string;
    /**
     * @generated from field: string username = 4;
     */
    username: string;
    /**
     * @generated from field: string password = 5;
     */
    password: string;
};
/**
 * Describes the message flowgate.v1.IssueTokenRequest.
 * Use `create(IssueTokenRequestSchema)` to create a new message.
 */
export declare const IssueTokenRequestSchema: GenMessage<IssueTokenRequest>;
/**
 * @generated from message flowgate.v1.IssueTokenResponse
 */
export type IssueTokenResponse = Message<"flowgate.v1.IssueTokenResponse"> & {
    /**
     * @generated from field: string access_token = 1 [json_name = "access_token"];
     */
    accessToken: string;
    /**
     * The token's lifetime in seconds.
     *
     * @generated from field: int32 expires_in = 2 [json_name = "expires_in"];
     */
    expiresIn: number;
    /**
     * "Bearer".
     *
     * @generated from field: string token_type = 3 [json_name = "token_type"];
     */
    tokenType: string;
};
/**
 * Describes the message flowgate.v1.IssueTokenResponse.
 * Use `create(IssueTokenResponseSchema)` to create a new message.
 */
export declare const IssueTokenResponseSchema: GenMessage<IssueTokenResponse>;
/**
 * @generated from message flowgate.v1.RevokeTokenRequest
 */
export type RevokeTokenRequest = Message<"flowgate.v1.RevokeTokenRequest"> & {
    /**
     * @generated from field: string token = 1;
     */
    token: string;
};
/**
 * Describes the message flowgate.v1.RevokeTokenRequest.
 * Use `create(RevokeTokenRequestSchema)` to create a new message.
 */
export declare const RevokeTokenRequestSchema: GenMessage<RevokeTokenRequest>;
/**
 * @generated from message flowgate.v1.RevokeTokenResponse
 */
export type RevokeTokenResponse = Message<"flowgate.v1.RevokeTokenResponse"> & {};
/**
 * Describes the message flowgate.v1.RevokeTokenResponse.
 * Use `create(RevokeTokenResponseSchema)` to create a new message.
 */
export declare const RevokeTokenResponseSchema: GenMessage<RevokeTokenResponse>;
/**
 * Why no token was issued or revoked (RFC 6749, section 5.2).
 *
 * @generated from message flowgate.v1.TokenError
 */
export type TokenError = Message<"flowgate.v1.TokenError"> & {
    /**
     * @generated from field: flowgate.v1.TokenErrorReason error = 1;
     */
    error: TokenErrorReason;
    /**
     * @generated from field: string error_description = 2 [json_name = "error_description"];
     */
    errorDescription: string;
    /**
     * Seconds until it is worth another try.
     *
     * @generated from field: optional int32 retry_after = 3;
     */
    retryAfter?: number | undefined;
};
/**
 * Describes the message flowgate.v1.TokenError.
 * Use `create(TokenErrorSchema)` to create a new message.
 */
export declare const TokenErrorSchema: GenMessage<TokenError>;
/**
 * @generated from enum flowgate.v1.TokenErrorReason
 */
export declare const TokenErrorReason: {
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_UNSPECIFIED = 0;
     */
    readonly UNSPECIFIED: 0;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_INVALID_REQUEST = 1;
     */
    readonly INVALID_REQUEST: 1;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_INVALID_CLIENT = 2;
     */
    readonly INVALID_CLIENT: 2;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_INVALID_GRANT = 3;
     */
    readonly INVALID_GRANT: 3;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_UNSUPPORTED_GRANT_TYPE = 4;
     */
    readonly UNSUPPORTED_GRANT_TYPE: 4;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_INVALID_SCOPE = 5;
     */
    readonly INVALID_SCOPE: 5;
    /**
     * @generated from enum value: TOKEN_ERROR_REASON_TEMPORARILY_UNAVAILABLE = 6;
     */
    readonly TEMPORARILY_UNAVAILABLE: 6;
};
/**
 * @generated from enum flowgate.v1.TokenErrorReason
 */
export type TokenErrorReason = (typeof TokenErrorReason)[keyof typeof TokenErrorReason] | UnknownEnum;
/**
 * Describes the enum flowgate.v1.TokenErrorReason.
 */
export declare const TokenErrorReasonSchema: GenEnum<TokenErrorReason>;
/**
 * Which authentication is in force, and the tokens that it gives out.
 *
 * @generated from service flowgate.v1.AuthService
 */
export declare const AuthService: GenService<{
    /**
     * Tells how to authenticate. An empty answer: every request may be made without.
     *
     * @generated from rpc flowgate.v1.AuthService.GetLogin
     */
    getLogin: {
        methodKind: "unary";
        input: typeof GetLoginRequestSchema;
        output: typeof GetLoginResponseSchema;
    };
    /**
     * Exchanges a user's credentials for an access token (RFC 6749, section 4.3).
     *
     * @generated from rpc flowgate.v1.AuthService.IssueToken
     */
    issueToken: {
        methodKind: "unary";
        input: typeof IssueTokenRequestSchema;
        output: typeof IssueTokenResponseSchema;
    };
    /**
     * Revokes an access token, before it answers (RFC 7009). A token that is unknown, expired or
     * revoked already is no error.
     *
     * @generated from rpc flowgate.v1.AuthService.RevokeToken
     */
    revokeToken: {
        methodKind: "unary";
        input: typeof RevokeTokenRequestSchema;
        output: typeof RevokeTokenResponseSchema;
    };
}>;
