// Package login knows who is signed in: it makes and checks the session cookie of the dashboard's routes, and keeps other sites'
// pages from using it.
//
// A surface becomes one of signed-in users by Sessions.Protect:
//
//	server.Mount("/api", sessions.Protect(surface))
//
// Its handlers then see an endpoint.Caller with tenant, project, user and grant, as those of the Client API do; a route's Access is
// "service:level", or "session:..." for what every signed-in user may. Public routes stay public, but are guarded like the others.
//
// Sessions.ProtectProject does the same for routes that are about the active project. A request may name another one that its user may
// act in (ProjectHeader, ProjectQuery); any other is NOT_FOUND.
//
// Rules:
//   - A session token is a JWT of a pinned algorithm (HS256) under the cluster's secret. It holds the generation of its user's
//     sessions; every node compares it with the user's record in its memory, so sessions hold on all nodes, survive restarts, and
//     end everywhere at once.
//   - A request that changes something is refused when a browser says that another site's page sent it (Sec-Fetch-Site, Origin).
//     Programs that are no browsers send neither, and hold no cookies that a page could misuse.
//   - Identity headers that a client sends are removed, and set for whoever handles the request.
//
// The package does not check passwords and counts no attempts: httpedge/dashboard does.
package login
