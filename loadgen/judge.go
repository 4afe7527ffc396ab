package loadgen

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
)

// outcome makes the figures of what was collected. All is at rest.
func (r *run) outcome(w window, client ClientUsage, behind int64, failure error) *Outcome {
	measured := time.Duration(max(0, w.to-w.from))
	o := &Outcome{
		Workload: r.workload, Bootstrap: r.opts.Bootstrap, StartedAt: r.start, Measured: measured,
		Ticks: r.ticks, Client: client,
	}
	o.Client.SendLatenessP99Us, o.Client.SendLatenessMaxUs = r.lateness.At(99), r.lateness.Max()
	if r.workload.Mode == ModeE2E {
		r.unreceived(w)
	}
	for i, s := range r.sums {
		if !r.shows(lineID(i)) {
			continue
		}
		l := Line{
			Name: lineNames[i], Records: s.total.records, Bytes: s.total.bytes, Requests: s.total.requests,
			Errors: s.total.errors, Unfinished: s.unfinished, Histogram: s.all,
		}
		for code, n := range s.errors {
			if l.ErrorsByCode == nil {
				l.ErrorsByCode = map[string]int64{}
			}
			l.ErrorsByCode[codeName(code)] += n
		}
		if seconds := measured.Seconds(); seconds > 0 {
			l.RecordsPerSec = float64(l.Records) / seconds
			l.MiBPerSec = float64(l.Bytes) / seconds / (1 << 20)
		}
		o.Lines = append(o.Lines, l)
	}
	if r.workload.Mode == ModeVerify {
		o.Verify = r.report(failure == nil)
	}
	r.judge(o, w, behind)
	return o
}

// unreceived enters the e2e records of the measured part that nobody received,
// with the least time that they can have waited.
func (r *run) unreceived(w window) {
	now := r.now()
	sum := r.sums[lineE2E]
	for second := w.from / 1e9; second*1e9 < w.to; second++ {
		var missing int64
		for _, s := range r.loops {
			missing += at(s.dueBySecond, second) - at(s.receivedBySecond, second)
		}
		end := min((second+1)*1e9, w.to)
		if missing > 0 && now > end {
			sum.unfinished += missing
			sum.all.RecordN((now-end)/1000, missing)
		}
	}
}

func at(s []int64, i int64) int64 {
	if i < int64(len(s)) {
		return s[i]
	}
	return 0
}

func (o *Outcome) warn(code, format string, args ...any) {
	o.Warnings = append(o.Warnings, Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// nothingMeasured is the end of a sentence about a run that ended early.
func (o *Outcome) nothingMeasured() string {
	if o.Measured > 0 {
		return ""
	}
	return fmt.Sprintf(", within the warm-up of %v: nothing was measured", o.Workload.Warmup)
}

// judge says what was the limit, where it was not the broker.
func (r *run) judge(o *Outcome, w window, behind int64) {
	if late := time.Duration(o.Client.SendLatenessP99Us) * time.Microsecond; late > latenessMax {
		o.warn(WarnBehindSchedule, "1 %% of the batches left %v or more after they could have, at most %v: the client was late",
			late.Round(10*time.Microsecond), (time.Duration(o.Client.SendLatenessMaxUs) * time.Microsecond).Round(10*time.Microsecond))
	}
	if b := time.Duration(behind); b > behindMax {
		o.warn(WarnBehindSchedule, "at the end the oldest unsent record was %v overdue", b.Round(time.Millisecond))
	}
	if o.Client.LoopShare > clientShareMax {
		o.warn(WarnClientLimited, "a loop of the client used %.0f %% of a core and waited %.0f %% of the time for one: more --loops may go faster",
			100*o.Client.LoopShare, 100*o.Client.LoopWait)
	}
	ack := o.Line(LineAck)
	if s := &r.workload.Schedule; s.Open() && ack != nil && o.Measured > 0 && r.workload.Records == 0 {
		asked := s.scheduledRecords(w.from, w.to) / o.Measured.Seconds()
		if ack.RecordsPerSec < rateShareMin*asked {
			o.warn(WarnRateNotReached, "%.0f records/s of %.0f asked", ack.RecordsPerSec, asked)
		}
	}
	for i := range o.Lines {
		l := &o.Lines[i]
		if l.Unfinished > 0 {
			o.warn(WarnUnfinished, "%s: %d records were due and not done at the end; the percentiles have them with the time they had waited",
				l.Name, l.Unfinished)
		}
		if len(l.ErrorsByCode) > 0 {
			o.warn(WarnErrors, "%s: %s", l.Name, countsByCode(l.ErrorsByCode))
		}
	}
	if v := o.Verify; v != nil && !v.OK {
		o.warn(WarnVerifyFailed, "%s", v.summary())
	}
}

// countsByCode is "12 × NOT_LEADER_OR_FOLLOWER, 3 × …", the most first.
func countsByCode(by map[string]int64) string {
	codes := make([]string, 0, len(by))
	for code := range by {
		codes = append(codes, code)
	}
	sort.Slice(codes, func(i, j int) bool {
		if a, b := by[codes[i]], by[codes[j]]; a != b {
			return a > b
		}
		return codes[i] < codes[j]
	})
	for i, code := range codes {
		codes[i] = fmt.Sprintf("%d × %s", by[code], code)
	}
	return strings.Join(codes, ", ")
}

func (v *VerifyReport) summary() string {
	return fmt.Sprintf("%d lost, %d duplicates, %d out of order, %d corrupt, %d foreign of %d acknowledged",
		v.Lost, v.Duplicates, v.Reordered, v.Corrupt, v.Foreign, v.Acked)
}

// verdict is the failure of a run that went to its end.
func (o *Outcome) verdict(r *run) error {
	if v := o.Verify; v != nil && !v.OK {
		return errors.New("verify: " + v.summary())
	}
	for _, name := range []string{LineAck, LineE2E, LineFetch} {
		l := o.Line(name)
		if l == nil || o.Measured == 0 || o.Interrupted {
			continue
		}
		if l.Records == 0 && len(l.ErrorsByCode) > 0 {
			return fmt.Errorf("%s: no record went through: %s", name, countsByCode(l.ErrorsByCode))
		}
		if l.Records == 0 && l.Unfinished > 0 {
			return fmt.Errorf("%s: no record went through in %v", name, o.Measured)
		}
	}
	return nil
}
