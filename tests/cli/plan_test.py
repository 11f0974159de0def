# SPDX-License-Identifier: Apache-2.0
"""`plan` on the real sample, and a fit that follows it."""
import json
import unittest

from support import SAMPLE, CliTest


class PlanTest(CliTest):
    def test_plan_keeps_to_the_budget_and_fit_follows_it(self) -> None:
        path, table = self.folder / "plan.json", self.folder / "table.json"
        text = self.assert_done("plan", SAMPLE, "--budget", 3.25, "-o", path)
        self.assertIn("stored bits per value (budget 3.25)", text)
        plan = json.loads(path.read_text())
        self.assertEqual((plan["format"], plan["version"]), ("so4cal-plan", 1))
        self.assertEqual(plan["error"], "output_wo")  # the sample has q and w_o
        self.assertEqual([side["side"] for side in plan["sides"]], ["k", "v", "k", "v"])
        self.assertLessEqual(plan["bits_per_value"], 3.25)
        # All sides of this model are equally wide: the plain mean.
        self.assertAlmostEqual(plan["bits_per_value"], sum(s["bits_per_value"] for s in plan["sides"]) / 4)
        self.assertEqual([side["logit_error"] is None for side in plan["sides"]], [False, True, False, True])

        summary = self.assert_done("fit", SAMPLE, "--plan", path, "-o", table, "--max-iterations", 2, "--rounding",
                                   "nearest")
        for side in "kv":
            bits = [s["bits_per_value"] for s in plan["sides"] if s["side"] == side]
            self.assertIn(f"{side}: {sum(bits) / 2:.4g} bits per value (", summary)
        self.assert_error(1, "is the same file as the input", "fit", SAMPLE, "--plan", path, "-o", path, "--force")
        report_path = self.folder / "report.json"
        self.assert_done("report", table, SAMPLE, "-o", report_path)
        wanted = {(s["layer"], s["side"]): (s["bits"], s["block"]) for s in plan["sides"]}
        for head in json.loads(report_path.read_text())["heads"]:
            codec = head["codec"]
            self.assertEqual((codec["bits"], codec["block"]), wanted[head["layer"], head["side"]])

    def test_more_bits_less_error(self) -> None:
        errors = []
        for budget in [2.5, 4.5]:
            self.assert_done("plan", SAMPLE, "--budget", budget, "-o", self.folder / "plan.json", "--force")
            errors.append(sum(s["error"] for s in json.loads((self.folder / "plan.json").read_text())["sides"]))
        self.assertLess(errors[1], 0.2 * errors[0])  # a bit is worth a factor of 4, and here there are two

    def test_errors(self) -> None:
        self.assert_error(1, ["--budget is 2.1", "at least"], "plan", SAMPLE, "--budget", 2.1)
        self.assert_error(2, "--budget is 1 bits per value, expected 2 to 16", "plan", SAMPLE, "--budget", 1)
        self.assert_error(1, "no validation tokens", "plan", SAMPLE, "--split", "70,0,30")
        path = self.folder / "plan.json"
        path.write_text('{"format": "so4cal-plan", "version": 1, "sides": []}')
        out = self.folder / "no.h5"
        self.assert_error(2, "--bits with --plan", "fit", SAMPLE, "--plan", path, "--bits", 3, "-o", out)
        self.assert_error(1, "no sides", "fit", SAMPLE, "--plan", path, "-o", out)
        path.write_text('{"format": "so4cal-plan", "version": 1, "sides": '
                        '[{"layer": 0, "side": "k", "bits": 3, "block": 32}]}')
        self.assert_error(1, "no entry for layer 0 v", "fit", SAMPLE, "--plan", path, "-o", out)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
