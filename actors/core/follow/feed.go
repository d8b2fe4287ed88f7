package follow

import (
	"strconv"
	"strings"
)

const feedPrefix = "feed/"

// Feed is what is followed at the owner of a shard to hear of the rows that change there in a project's lists of sessions and runs, in
// place of a conversation's id, which it cannot be taken for. No two projects share one, whatever their ids are.
func Feed(shard uint32, tenantID, projectID string) string {
	var b strings.Builder
	b.Grow(len(feedPrefix) + len(tenantID) + len(projectID) + 24)
	b.WriteString(feedPrefix)
	b.WriteString(strconv.FormatUint(uint64(shard), 10))
	b.WriteByte('/')
	b.WriteString(strconv.Itoa(len(tenantID)))
	b.WriteByte('/')
	b.WriteString(tenantID)
	b.WriteByte('/')
	b.WriteString(projectID)
	return b.String()
}

// IsFeed says that what is followed is a feed.
func IsFeed(id string) bool { return strings.HasPrefix(id, feedPrefix) }
