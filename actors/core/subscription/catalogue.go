package subscription

import (
	"slices"
	"strings"
)

// Types of events (document 1, "Events").
const (
	SessionIdled      = "session.idled"
	SessionWorkDone   = "session.work_done"
	ActionRequired    = "action.required"
	BudgetReached     = "budget.reached"
	BudgetAlert       = "budget.alert" // ours: the documents say that budgets have thresholds, not what becomes of them
	FeedbackRecorded  = "feedback.recorded"
	RunSucceeded      = "agent_run.succeeded"
	RunFailed         = "agent_run.failed"
	RunCanceled       = "agent_run.canceled"
	RunRequiresAction = "agent_run.requires_action"
	ScheduleFired     = "schedule.fired"
	ScheduleFailed    = "schedule.failed"
	TestType          = "webhook.test" // sent to the tested endpoint alone: nobody asks for it
	everything        = "*"
	patternEnd        = ".*"
)

// Type is a type of events that an endpoint may ask for, and its group.
type Type struct{ Type, Group string }

// Catalogue is all types that an endpoint may ask for.
func Catalogue() []Type {
	return []Type{
		{SessionIdled, "session"},
		{SessionWorkDone, "session"},
		{ActionRequired, "action"},
		{BudgetReached, "budget"},
		{BudgetAlert, "budget"},
		{FeedbackRecorded, "feedback"},
		{RunSucceeded, "agent_run"},
		{RunFailed, "agent_run"},
		{RunCanceled, "agent_run"},
		{RunRequiresAction, "agent_run"},
		{ScheduleFired, "schedule"},
		{ScheduleFailed, "schedule"},
	}
}

// known says whether an endpoint may ask for this: a type, the pattern of at least one, or everything.
func known(wanted string) bool {
	return slices.ContainsFunc(Catalogue(), func(t Type) bool { return hears([]string{wanted}, t.Type) })
}

// hears says whether what an endpoint asked for includes a type.
func hears(asked []string, kind string) bool {
	return slices.ContainsFunc(asked, func(wanted string) bool {
		prefix, isPattern := strings.CutSuffix(wanted, patternEnd)
		return wanted == kind || wanted == everything || isPattern && strings.HasPrefix(kind, prefix+".")
	})
}
