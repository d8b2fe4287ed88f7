// Package hook asks an operator's application by HTTP what this server cannot know: who is behind a request
// (resolveContext), whether a caller has made too many requests (rateLimit), may raise a budget (authorizeBudget), or
// may decide a pending action (authorizeResolve).
//
// Each call is one POST of a JSON object {"hook": name, ...} to the hook's URL, signed like a webhook if there is a
// secret: X-Service-Signature: t=<unix seconds>,v1=<hex HMAC-SHA256(secret, "<t>.<body>")>. The answer is 200 with a
// JSON object: {"userId"} of resolveContext, {"allowed", "message", "retryAfter"} of the others. 401 and 403, and 429
// of rateLimit, are a no as well. Anything else (no response in time, another status, other JSON, more than 64 KiB)
// counts as no answer: the request is refused, unless the hook has on_error: allow.
//
// Answers are not cached, so the application's decisions take effect at once. There are no retries, because a client is
// waiting. Calls in progress are bounded per hook; more wait within the hook's timeout. Redirects are not followed: a
// call may hold credentials of the request.
//
// Hooks are decorators: Authenticator and Limiter return one that calls the hook in addition to the given one, so the
// edge does not know of hooks.
package hook
