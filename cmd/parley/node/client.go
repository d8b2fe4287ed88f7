package node

import (
	"context"
	"time"
)

// startDirectory opens the directory to the edge and to the runner. Before the log is recovered: what it recovers may be turns
// of agents that are recorded here.
func (n *Node) startDirectory(context.Context) error {
	records, stop := newRecords(n) //nolint:contextcheck // it lives until the node stops
	n.records = records
	n.later(stop)
	seal, err := newSealer(n.config, n.links == nil)
	if err != nil {
		return err
	}
	n.seal = seal
	n.roster.Store(&people{records: records, ids: ids{n.shards}, now: time.Now})
	n.agents.recorded = newRecordedAgents(records, newCompiler(n.config, seal.Open), n.log)
	return nil
}
