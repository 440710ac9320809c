import { RequestError } from "../http/request-error.ts";

export function incompleteBody(): RequestError {
  return new RequestError(400, "incomplete_body", "the connection was closed before the end of the body");
}

/** A mistake of the application, which no client can correct. */
export function bodyAlreadyRead(): RequestError {
  return new RequestError(
    500,
    "body_already_read",
    "the body was read before the gateway could: it must come before body parsers, such as express.json()",
  );
}
