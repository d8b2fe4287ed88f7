// Package quota holds the policies that bound what the calls of a tenant may use and cost, and how much there may be of what it makes;
// it says which of them are in force (document 3, sections 4 and 13.3). A budget is a policy with spend limits. It is pure; what was used
// counts package actors/allowance.
//
// # Which policies are in force
//
// A policy fits a call when it is enabled, of the call's tenant, of its project or of all, of its domain or global, and of the
// caller's scope. Policies that fit are merged by ascending priority, older first where that is equal: of each limit the last one
// that says something is in force. -1 says that there is no limit. A policy whose limit another one overrides still counts what the
// call used, so that its own numbers are whole.
//
// Quotas (Limits.Quotas) bound what there is: agents, models, API tokens, users, projects. They are merged in the same way; the policy
// that is in force for a new record counts the records that it fits, and refuses one more (Kept.Room). Plans bound them, too.
//
// Windows begin at whole ones of UTC: a day at midnight, a month on its first day. A policy counts from when it was made.
package quota
