import type { Examples } from "@flowgate/gateway";
import { json } from "./values.ts";

const login = {
  client_id: "service-admin",
  grant_type: "password",
  scope: "*",
  username: "admin",
  password: "the password of admin",
};
const listedToken = {
  id: "4f0c2a9be8d15c7763a1f20e",
  name: "nightly backup",
  user: "admin",
  scope: "flows.read",
  createTime: "2026-11-20T08:15:30.125Z",
  expireTime: "2027-11-20T08:15:30.125Z",
  valid: true,
};
const token = "6Qp2cB1oT0m3xk9yZ5vW8uN7rE4sA1dF_h-JgK2LqXw";

export const accounts: Examples = {
  AuthService_GetLogin: {
    responses: {
      200: json({
        credentials: {
          summary: "Users log in",
          value: {
            type: "credentials",
            prompts: [
              { id: "username", type: "text", label: "Username" },
              { id: "password", type: "password", label: "Password" },
            ],
          },
        },
        none: { summary: "No authentication is needed", value: {} },
      }),
    },
  },
  AuthService_IssueToken: {
    request: {
      "application/x-www-form-urlencoded": { password: { summary: "With a password", value: login } },
      "application/json": { password: { summary: "With a password", value: login } },
    },
    responses: {
      200: json({
        token: {
          summary: "A token for a week",
          value: { access_token: token, expires_in: 604_800, token_type: "Bearer" },
        },
        allPermissions: {
          summary: "For a request without scope",
          value: { access_token: token, expires_in: 604_800, token_type: "Bearer", scope: "*" },
        },
      }),
      400: json({
        wrongPassword: {
          summary: "Unknown user or wrong password",
          value: { error: "invalid_grant", error_description: "The username or the password is wrong." },
        },
      }),
      401: json({
        unknownClient: {
          summary: "Unknown client",
          value: { error: "invalid_client", error_description: "This client_id is not configured." },
        },
      }),
      429: json({
        tooMany: {
          summary: "Too many failed logins",
          value: { error: "temporarily_unavailable", error_description: "Too many failed attempts; try again later." },
        },
      }),
    },
  },
  AuthService_GetIdentity: {
    responses: {
      200: json({
        login: {
          summary: "A token of a login",
          value: { username: "admin", permissions: ["*"], tokenId: "4f0c2a9be8d15c7763a1f20e" },
        },
      }),
    },
  },
  AuthService_RevokeToken: {
    request: {
      "application/x-www-form-urlencoded": { token: { value: { token } } },
      "application/json": { token: { value: { token } } },
    },
    responses: {
      400: json({
        missing: {
          summary: "The parameter is missing",
          value: { error: "invalid_request", error_description: "The parameter token is missing or empty." },
        },
      }),
    },
  },
  TokensService_ListTokens: {
    responses: {
      200: json({
        tokens: {
          summary: "A named token, not used yet, and one of a login",
          value: {
            tokens: [
              listedToken,
              {
                id: "90b1d27e3c5f4a6188e4c20d",
                user: "editor",
                scope: "flows.read flows.write",
                clientId: "service-editor",
                createTime: "2026-11-19T07:02:11.004Z",
                expireTime: "2026-11-26T07:02:11.004Z",
                lastUseTime: "2026-11-21T02:00:04.870Z",
                valid: true,
              },
            ],
          },
        },
      }),
    },
  },
  TokensService_CreateToken: {
    request: json({
      year: { summary: "For a year", value: { name: "nightly backup", scope: "flows.read", expiresIn: 31_536_000 } },
    }),
    responses: { 201: json({ created: { value: { token: listedToken, accessToken: token } } }) },
  },
  TokensService_DeleteToken: {},
  TokensService_RevokeTokens: {
    request: json({
      user: { summary: "All tokens of a user", value: { user: "editor" } },
      all: { summary: "All tokens", value: { all: true } },
    }),
    responses: { 200: json({ revoked: { value: { revoked: 3 } } }) },
  },
};
