// Package access holds the rules of who may do what over the Client API: services, levels, roles, token scopes, licence
// tiers (document 1, "Authentication"; document 3, sections 2 and 3). It is pure: records in, answers out.
package access
