// Package hook asks an operator's application by HTTP about what this server cannot know: who is behind a request
// (resolveContext), whether a caller has asked too often (rateLimit), may raise a budget (authorizeBudget), or may
// decide a pending action (authorizeResolve).
//
// Each question is one POST of a JSON object {"hook": name, ...} to the hook's address, signed as webhooks are when
// there is a secret: X-Service-Signature: t=<unix seconds>,v1=<hex HMAC-SHA256(secret, "<t>.<body>")>. The answer is 200
// with a JSON object: {"userId"} of resolveContext, {"allowed", "message", "retryAfter"} of the others. 401 and 403, and
// 429 of rateLimit, are a no as well. Anything else (no answer in time, another status, not this JSON, more than 64
// KiB) is no answer: the request is refused, unless the hook says on_error: allow.
//
// Answers are not remembered: what the application says holds at once. There are no retries, because somebody waits;
// questions under way are bounded per hook, and more wait within the hook's timeout. Redirects are not followed:
// a question may hold credentials of the request.
//
// Hooks wrap what is there: Authenticator and Limiter return one that asks the hook besides the one they were given,
// so that the edge does not know of them.
package hook
