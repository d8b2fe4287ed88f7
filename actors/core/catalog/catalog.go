// Package catalog holds the agents, models and providers of projects, and the rules for who may create, change and delete them.
package catalog

import "fmt"

// Collections of the directory (package directorypb says what they hold and how they are keyed).
const (
	Agents        = "agents"
	AgentVersions = "agent_versions"
	Models        = "models"
	Providers     = "providers"
)

// Key is the key of a project's agent, model or provider.
func Key(projectID, key string) string { return projectID + "/" + key }

// VersionKey is the key of a version of the agent with a record key.
func VersionKey(agentKey string, version int64) string {
	return fmt.Sprintf("%s/%010d", agentKey, version)
}
