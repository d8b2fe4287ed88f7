package endpoint

import "fmt"

// RecordKey is the key of a project's agent, model or provider.
func RecordKey(projectID, key string) string { return projectID + "/" + key }

// VersionKey is the key of a version of the agent with a record key.
func VersionKey(recordKey string, version int64) string {
	return fmt.Sprintf("%s/%010d", recordKey, version)
}
