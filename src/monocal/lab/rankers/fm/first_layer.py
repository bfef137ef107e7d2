"""The first layer of the network, with small fields folded into look-up tables."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.samples import Ids
from monocal.kernels.value_products import add_folded, sum_by_value
from monocal.lab.rankers.fm.field_plan import FieldPlan

Floats32 = NDArray[np.float32]


@final
class FirstLayer:
    r"""Computes :math:`b + \sum_f W_f\,e_f[x_f]` for chunks of rows.

    For small fields :math:`W_f\,e_f[v]` is computed once per value v; for the others it is a matrix product. Two
    thirds of Avazu's fields are small, so two thirds of the layer's work becomes additions.

    Arguments:
        plan: Which fields are small.
        weight: The layer's weights `(width, fields · dimensions)`.
        bias: The layer's biases.
        store: The joined table; its first columns are the embeddings.
    """

    def __init__(self, plan: FieldPlan, weight: Tensor, bias: Tensor, store: Floats32) -> None:
        self.plan = plan
        self._weight = weight
        self._bias = bias.numpy()
        self._store = store
        by_field = weight.view(weight.shape[0], len(plan.field_sizes), plan.n_dimensions)
        self._large_weight = by_field[:, list(plan.large)].reshape(weight.shape[0], plan.n_inputs)
        self._tables = np.empty((plan.n_values, weight.shape[0]), np.float32)
        for place in range(len(plan.small)):
            rows, values, columns = plan.values_of(place)
            torch.mm(self._embeddings(rows), weight[:, columns].t(), out=torch.from_numpy(self._tables[values]))

    def forward(self, rows: Ids, inputs: Tensor, out: Tensor, shared: tuple[int, ...] = ()) -> Tensor:
        """Writes the layer's values (before the ReLU) of a chunk into `out` and returns it.

        Arguments:
            rows: Row numbers in the joined table.
            inputs: The large fields' embeddings.
            out: Gets the values.
            shared: Fields in which all rows equal the first one; the folded ones among them are added up once.
        """
        fields, shifts, base = self.plan.small_fields, self.plan.shifts, self._bias
        if shared:
            common = np.isin(fields, shared)
            once = np.empty((1, base.shape[0]), np.float32)
            add_folded(rows[:1], fields[common], shifts[common], self._tables, base, once)
            fields, shifts, base = fields[~common], shifts[~common], once[0]
        add_folded(rows, fields, shifts, self._tables, base, out.numpy())
        return out.addmm_(inputs, self._large_weight.t()) if inputs.shape[1] else out

    def backward(self, rows: Ids, inputs: Tensor, upper: Tensor, weight_gradient: Tensor, totals: Floats32) -> None:
        """Takes a chunk's gradient `upper` of the layer's values apart.

        Arguments:
            rows: Row numbers in the joined table.
            inputs: The large fields' embeddings; replaced by their gradients.
            upper: The gradient.
            weight_gradient: Gets the weights' gradient of the large fields; the rest of it is left alone.
            totals: Gets the sum of `upper` per value of the small fields.
        """
        sum_by_value(rows, self.plan.small_fields, self.plan.shifts, upper.numpy(), totals)
        by_field = weight_gradient.view(upper.shape[1], len(self.plan.field_sizes), self.plan.n_dimensions)
        product = torch.mm(upper.t(), inputs).view(upper.shape[1], len(self.plan.large), self.plan.n_dimensions)
        by_field[:, list(self.plan.large)] = product
        torch.mm(upper, self._large_weight, out=inputs)

    def finish(self, totals: Floats32, weight_gradient: Tensor, value_gradients: Floats32) -> None:
        """Turns the sums per value over a whole batch into gradients of weights and embeddings of small fields.

        Arguments:
            totals: The sum of all chunks' totals.
            weight_gradient: Gets the weights' gradient of the small fields.
            value_gradients: Gets the gradient of each small field's embeddings, value by value.
        """
        summed = torch.from_numpy(totals)
        for place in range(len(self.plan.small)):
            rows, values, columns = self.plan.values_of(place)
            weight_gradient[:, columns] = summed[values].t() @ self._embeddings(rows)
            torch.mm(summed[values], self._weight[:, columns], out=torch.from_numpy(value_gradients[values]))

    def _embeddings(self, rows: slice) -> Tensor:
        return torch.from_numpy(self._store[rows, : self.plan.n_dimensions])
