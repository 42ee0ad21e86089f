// Ten tests of a table in a compacted topic. The same ten, in the same order, are in the other languages beside us.
package table

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"testing"
)

const (
	hourMs = 3_600_000
	topic  = "rows"
)

var compacted = map[string]string{"cleanup.policy": "compact"}

// table is a table in an empty broker.
func table(t *testing.T, configs map[string]string) Table {
	t.Helper()
	broker.post(t, "/v1/reset", nil)
	broker.createTopic(t, topic, configs)
	return Table{broker.bootstrap, topic}
}

func with(configs map[string]string, name, value string) map[string]string {
	more := maps.Clone(configs)
	more[name] = value
	return more
}

func row(key, value string) Row { return Row{key, &value} }

// values are `count` rows over so many keys, one after the other.
func values(count, keys int) (rows []Row) {
	for n := range count {
		rows = append(rows, row(fmt.Sprintf("key %d", n%keys), fmt.Sprintf("value %d", n)))
	}
	return rows
}

func put(t *testing.T, table Table, rows ...Row) {
	t.Helper()
	if err := table.Put(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, table Table) map[string]string {
	t.Helper()
	rows, err := table.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func history(t *testing.T, table Table) []Row {
	t.Helper()
	rows, err := table.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func equal(t *testing.T, expected, found any) {
	t.Helper()
	if !reflect.DeepEqual(expected, found) {
		t.Fatalf("expected %v, found %v", expected, found)
	}
}

func Test1ATableIsWhatItsTopicSays(t *testing.T) {
	rows := table(t, compacted)
	put(t, rows, row("a", "1"))
	put(t, rows, row("b", "2"))
	put(t, rows, row("a", "3"))
	put(t, rows, Row{Key: "b"})
	equal(t, map[string]string{"a": "3"}, rowsOf(t, rows))
}

func Test2CompactionLeavesTheNewestRecordOfEachKey(t *testing.T) {
	rows := table(t, compacted)
	put(t, rows, values(100, 10)...)
	before := rowsOf(t, rows)
	broker.post(t, "/v1/topics/rows/compact", object{"force": true})
	equal(t, 10, len(history(t, rows)))
	equal(t, before, rowsOf(t, rows))
}

func Test3AfterEightDaysAllButTheLastRecordIsCompacted(t *testing.T) {
	rows := table(t, compacted)
	put(t, rows, values(100, 10)...)
	broker.post(t, "/v1/clock/advance", object{"by_ms": 8 * 24 * hourMs}) // more than segment.ms
	put(t, rows, row("key 0", "one more"))
	equal(t, 11, len(history(t, rows)))
	equal(t, "one more", rowsOf(t, rows)["key 0"])
}

func Test4ATombstoneStaysForADayAndGoes(t *testing.T) {
	rows := table(t, compacted)
	put(t, rows, row("a", "1"))
	put(t, rows, Row{Key: "a"})
	put(t, rows, row("b", "2"))
	broker.post(t, "/v1/topics/rows/compact", object{"force": true})
	equal(t, []Row{{Key: "a"}, row("b", "2")}, history(t, rows))
	broker.post(t, "/v1/clock/advance", object{"by_ms": 25 * hourMs}) // more than delete.retention.ms
	broker.post(t, "/v1/topics/rows/compact", object{"force": true})
	equal(t, []Row{row("b", "2")}, history(t, rows))
}

func Test5YoungRecordsAreNotCompacted(t *testing.T) {
	rows := table(t, with(compacted, "min.compaction.lag.ms", fmt.Sprint(hourMs)))
	put(t, rows, values(20, 2)...)
	broker.post(t, "/v1/topics/rows/compact", object{"roll": true})
	equal(t, 20, len(history(t, rows)))
	broker.post(t, "/v1/clock/advance", object{"by_ms": 2 * hourMs})
	broker.post(t, "/v1/topics/rows/compact", nil)
	equal(t, 2, len(history(t, rows)))
}

func Test6RetentionTakesWhatIsTooOld(t *testing.T) {
	rows := table(t, map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(hourMs)})
	put(t, rows, values(20, 2)...)
	broker.post(t, "/v1/topics/rows/roll", nil)
	broker.post(t, "/v1/clock/advance", object{"by_ms": 2 * hourMs})
	broker.post(t, "/v1/retention", object{"topic": topic})
	put(t, rows, row("a", "later"))
	equal(t, []Row{row("a", "later")}, history(t, rows))
	start, _, err := rows.Offsets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, int64(20), start)
}

func Test7AWriteWhoseAnswerIsLostIsThereOnce(t *testing.T) {
	rows := table(t, compacted)
	lost := broker.fault(t, object{"api": "Produce", "topic": topic, "disconnect": "after"})
	put(t, rows, row("a", "1"))
	equal(t, 1, broker.hits(t, lost))
	equal(t, []Row{row("a", "1")}, history(t, rows))
}

func Test8AReaderLivesThroughALeaderThatMoves(t *testing.T) {
	rows := table(t, compacted)
	put(t, rows, row("a", "1"))
	moved := broker.fault(t, object{"api": "Fetch", "topic": topic, "error": "NOT_LEADER_OR_FOLLOWER", "count": 3})
	equal(t, map[string]string{"a": "1"}, rowsOf(t, rows))
	equal(t, 3, broker.hits(t, moved))
}

func Test9AResetLeavesNothing(t *testing.T) {
	put(t, table(t, compacted), row("a", "1"))
	broker.post(t, "/v1/reset", nil)
	equal(t, 0, len(broker.topics(t)))
	equal(t, map[string]string{}, rowsOf(t, table(t, compacted)))
}

func Test10EveryHardLogIsReadToItsEnd(t *testing.T) {
	broker.post(t, "/v1/reset", nil)
	var list struct {
		Cases []struct {
			Name      string
			LooksLike string `json:"looks_like"`
		}
	}
	broker.call(t, http.MethodGet, "/v1/cases", nil, &list)
	for _, each := range list.Cases {
		var loaded struct {
			Topic         string
			ReadCommitted []Row `json:"read_committed"`
		}
		broker.call(t, http.MethodPost, "/v1/cases/"+each.Name, nil, &loaded)
		found := history(t, Table{broker.bootstrap, loaded.Topic})
		if len(found)+len(loaded.ReadCommitted) > 0 && !reflect.DeepEqual(found, loaded.ReadCommitted) {
			t.Errorf("%s: %s: expected %v, found %v", each.Name, each.LooksLike, loaded.ReadCommitted, found)
		}
	}
}
