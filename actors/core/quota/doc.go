// Package quota holds the policies that bound what the calls of a tenant may use and cost, and says which of them are in force for a
// call (document 3, sections 4 and 13.3). A budget is a policy with spend limits. It is pure; what was used counts package
// actors/allowance.
//
// # Which policies are in force
//
// A policy fits a call when it is enabled, of the call's tenant, of its project or of all, of its domain or global, and of the
// caller's scope. Policies that fit are merged by ascending priority, older first where that is equal: of each limit the last one
// that says something is in force. -1 says that there is no limit. A policy whose limit another one overrides still counts what the
// call used, so that its own numbers are whole.
//
// Windows begin at whole ones of UTC: a day at midnight, a month on its first day. A policy counts from when it was made.
package quota
